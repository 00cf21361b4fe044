package ec2sim

import (
	"fmt"
	"reflect"
	"strconv"
	"time"
)

// namespaces are the XML namespaces of each API version.
var namespaces = map[string]string{
	serviceEC2:   "http://ec2.amazonaws.com/doc/2016-11-15/",
	serviceELB:   "http://elasticloadbalancing.amazonaws.com/doc/2012-06-01/",
	serviceELBv2: "http://elasticloadbalancing.amazonaws.com/doc/2015-12-01/",
	serviceSTS:   "https://sts.amazonaws.com/doc/2011-06-15/",
	serviceIAM:   "https://iam.amazonaws.com/doc/2010-05-08/",
}

// response renders the envelope of a service around an action's output.
func response(b []byte, service, action, requestID string, now time.Time, out any) []byte {
	e := &encoder{now: now, query: service != serviceEC2}
	b = append(b, `<?xml version="1.0" encoding="UTF-8"?>`+"\n<"...)
	b = append(append(b, action...), `Response xmlns="`...)
	b = append(append(b, namespaces[service]...), `">`...)
	if e.query {
		b = append(append(append(b, '<'), action...), "Result>"...)
		b = e.content(b, reflect.ValueOf(out))
		b = append(append(append(b, "</"...), action...), "Result><ResponseMetadata>"...)
		b = appendText(b, "RequestId", requestID)
		b = append(b, "</ResponseMetadata>"...)
	} else {
		b = appendText(b, "requestId", requestID)
		b = e.content(b, reflect.ValueOf(out))
	}
	return append(append(append(b, "</"...), action...), "Response>"...)
}

var timeType = reflect.TypeFor[time.Time]()

// content renders what goes inside a value's element.
func (e *encoder) content(b []byte, v reflect.Value) []byte {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		if v.IsNil() {
			return b
		}
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.String:
		return appendEscaped(b, v.String())
	case reflect.Int, reflect.Int32, reflect.Int64:
		return strconv.AppendInt(b, v.Int(), 10)
	case reflect.Bool:
		return strconv.AppendBool(b, v.Bool())
	case reflect.Float64:
		return strconv.AppendFloat(b, v.Float(), 'g', -1, 64)
	case reflect.Slice:
		name := "item"
		if e.query {
			name = "member"
		}
		for i := range v.Len() {
			b = append(append(append(b, '<'), name...), '>')
			b = e.content(b, v.Index(i))
			b = append(append(append(b, "</"...), name...), '>')
		}
		return b
	case reflect.Struct:
		return e.structure(b, v)
	}
	panic(fmt.Sprintf("ec2sim cannot render a %s", v.Type()))
}

func (e *encoder) structure(b []byte, v reflect.Value) []byte {
	if v.Type() == timeType {
		return v.Interface().(time.Time).UTC().AppendFormat(b, wireTime)
	}
	known := fieldsOf(v.Type())
	if known.appender {
		if !v.CanAddr() {
			held := reflect.New(v.Type()).Elem()
			held.Set(v)
			v = held
		}
		return v.Addr().Interface().(wireAppender).appendWire(b, e)
	}
	for _, field := range known.fields {
		value := v.Field(field.index)
		if field.embedded {
			b = e.content(b, value)
			continue
		}
		if e.leftOut(field, value) {
			continue
		}
		name := field.camel
		if e.query {
			name = field.pascal
		}
		b = append(append(append(b, '<'), name...), '>')
		b = e.content(b, value)
		b = append(append(append(b, "</"...), name...), '>')
	}
	return b
}

// leftOut tells empty strings, nil pointers and zero times, which the APIs
// leave out; other zero values are shown unless the tag says omitempty.
func (e *encoder) leftOut(field wireField, v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return v.IsNil()
	case reflect.String:
		return v.Len() == 0 && !field.keep
	case reflect.Slice:
		return v.Len() == 0 && field.omit
	case reflect.Struct:
		if v.Type() == timeType {
			return v.IsZero()
		}
	}
	return field.omit && v.IsZero()
}
