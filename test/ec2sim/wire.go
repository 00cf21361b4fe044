package ec2sim

import (
	"reflect"
	"strings"
	"sync"
	"time"
)

// initialisms turns Go's spelling of initialisms into that of the query APIs.
var initialisms = strings.NewReplacer("CIDR", "Cidr", "VPC", "Vpc", "DNS", "Dns", "IAM", "Iam", "ARN", "Arn",
	"EBS", "Ebs", "KMS", "Kms", "CPU", "Cpu", "HTTP", "Http", "IOPS", "Iops", "NAT", "Nat", "ACL", "Acl",
	"MAC", "Mac", "TCP", "Tcp", "SSL", "Ssl", "URL", "Url", "ICMP", "Icmp", "DHCP", "Dhcp", "IP", "Ip", "ID", "Id")

// wireField is one struct field's place in a request or response. The tag
// `wire:"name,option"` overrides the name made from the field's; options are
// required (requests), omitempty and keep (responses).
type wireField struct {
	index    int
	pascal   string
	camel    string
	embedded bool
	required bool
	omit     bool
	keep     bool
}

// wireType is what is known of a struct type.
type wireType struct {
	fields   []wireField
	appender bool
}

var (
	wireTypes    sync.Map // reflect.Type -> *wireType
	appenderType = reflect.TypeFor[wireAppender]()
)

func fieldsOf(t reflect.Type) *wireType {
	if cached, ok := wireTypes.Load(t); ok {
		return cached.(*wireType)
	}
	var fields []wireField
	for i := range t.NumField() {
		field := t.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("wire"), ",")
		if name == "-" || (!field.IsExported() && !field.Anonymous) {
			continue
		}
		f := wireField{
			index: i, embedded: field.Anonymous && name == "",
			required: strings.Contains(options, "required"),
			omit:     strings.Contains(options, "omitempty"),
			keep:     strings.Contains(options, "keep"),
		}
		f.pascal = initialisms.Replace(field.Name)
		f.camel = strings.ToLower(f.pascal[:1]) + f.pascal[1:]
		if name != "" {
			f.pascal, f.camel = name, name
		}
		fields = append(fields, f)
	}
	known := &wireType{fields, reflect.PointerTo(t).Implements(appenderType)}
	wireTypes.Store(t, known)
	return known
}

// encoder renders Go values as the XML of one protocol.
type encoder struct {
	now time.Time
	// query is the protocol of ELB, STS and IAM: names start with a capital
	// and list entries are called member; EC2's are camel case and item.
	query bool
}

// wireAppender renders itself as the content of an element.
type wireAppender interface {
	appendWire(b []byte, e *encoder) []byte
}

const wireTime = "2006-01-02T15:04:05.000Z"

func appendText(b []byte, name, text string) []byte {
	b = append(append(append(b, '<'), name...), '>')
	b = appendEscaped(b, text)
	return append(append(append(b, "</"...), name...), '>')
}

// appendEscaped also replaces what XML cannot carry, as encoding/xml does:
// a control byte would make the whole page unreadable.
func appendEscaped(b []byte, text string) []byte {
	start := 0
	for i := 0; i < len(text); i++ {
		if c := text[i]; c >= 0x20 && c < 0x80 && c != '<' && c != '>' && c != '&' && c != '"' && c != '\'' {
			continue
		}
		return appendEscapedSlow(append(b, text[start:i]...), text[i:])
	}
	return append(b, text...)
}

func appendEscapedSlow(b []byte, text string) []byte {
	for _, c := range text {
		switch {
		case c == '<':
			b = append(b, "&lt;"...)
		case c == '>':
			b = append(b, "&gt;"...)
		case c == '&':
			b = append(b, "&amp;"...)
		case c == '"':
			b = append(b, "&#34;"...)
		case c == '\'':
			b = append(b, "&#39;"...)
		case c == '\t' || c == '\n' || c == '\r':
			b = append(b, "&#x"...)
			b = append(b, "0123456789ABCDEF"[c])
			b = append(b, ';')
		case c < 0x20 || c == 0xFFFE || c == 0xFFFF:
			b = append(b, "\uFFFD"...)
		default:
			b = append(b, string(c)...)
		}
	}
	return b
}
