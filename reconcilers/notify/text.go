package notify

import (
	"regexp"
	"strings"

	"github.com/holdfast-io/holdfast/providers"
)

// dialect is how a service reads a message, and so what hostile text could do
// in it: mention a whole channel, become a link, look like Holdfast's words.
type dialect struct {
	// max is how many characters a message may have.
	max int
	// title services show a title apart.
	title bool
	// exact services hand the text to programs: nothing is put into it.
	exact bool
	// spans says that `text` is shown as it is, without mentions or links.
	spans bool
	// entities says that & < > are written as Slack wants them.
	entities bool
	// params keep the service from reading the text as markup.
	params map[string]string
}

const (
	// maxLength is for services that take more than anybody reads.
	maxLength = 3000
	// minLength leaves room for a title and one line.
	minLength = 400
)

// dialects by shoutrrr's names. The lengths are the services' documented ones
// where they are shorter than maxLength; those in spans render Markdown or a
// kin of it.
var dialects = map[string]dialect{
	"generic":    {max: 100_000, title: true, exact: true},
	"slack":      {max: maxLength, spans: true, entities: true},
	"discord":    {max: 1900, spans: true},
	"mattermost": {max: maxLength, spans: true},
	"rocketchat": {max: maxLength, spans: true},
	"googlechat": {max: maxLength, spans: true},
	"hangouts":   {max: maxLength, spans: true},
	"zulip":      {max: maxLength, spans: true},
	"notifiarr":  {max: 1900, spans: true},
	"teams":      {max: maxLength},
	"matrix":     {max: maxLength},
	"lark":       {max: maxLength},
	"wecom":      {max: 1500},
	"signal":     {max: 1900},
	"telegram":   {max: maxLength, params: map[string]string{"parsemode": "None", "preview": "No"}},
	"smtp":       {max: maxLength, title: true, params: map[string]string{"usehtml": "No"}},
	"gotify":     {max: maxLength, title: true},
	"ntfy":       {max: maxLength, title: true},
	"pushover":   {max: 1000, title: true},
	"bark":       {max: 1000, title: true},
	"pushbullet": {max: maxLength, title: true},
	"join":       {max: 1000, title: true},
	"ifttt":      {max: 1000},
	"opsgenie":   {max: maxLength},
	"pagerduty":  {max: 1000},
}

// Bounds of one text in a message.
const (
	maxValue  = 80
	maxReason = 200
)

// value makes a hostile text inert: on one line, bounded, in no service a
// mention or a link.
func (d *dialect) value(s string, limit int) string {
	s = providers.Cleaner{Max: limit}.Clean(providers.Redact(s))
	if d.exact {
		return s
	}
	s = d.words(defuse(s))
	if d.spans {
		return "`" + strings.ReplaceAll(s, "`", "'") + "`"
	}
	return s
}

// words writes Holdfast's own words.
func (d *dialect) words(s string) string {
	if d.entities {
		// Slack, "Formatting text for app surfaces", "Escaping text".
		return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
	}
	if d.exact {
		return s
	}
	// Google Chat, Lark and WeCom mention by tags, and mail may be HTML.
	return strings.NewReplacer("<", "‹", ">", "›").Replace(s)
}

// breaker is a zero-width space. It changes nothing to see, and ends what a
// service would have read as a mention or a link.
const breaker = "\u200b"

var (
	dotted = regexp.MustCompile(`[\pL\pN_-]+(?:\.[\pL\pN_-]+)+`)
	// instanceSize ends EC2's instance types: m5.large, c7g.16xlarge, i4i.metal.
	instanceSize = regexp.MustCompile(`^(nano|micro|small|medium|large|\d*xlarge|metal.*)$`)
	// schemes are the links that have no //.
	schemes = regexp.MustCompile(`(?i)(mailto|tel|sms|javascript|data):`)
	letters = regexp.MustCompile(`^\pL[\pL\pN-]+$`)
)

// defuse breaks what would be a mention or a link. Services look for links in
// different ways, so that whatever may be a host name is broken; it stays
// legible, and who wants to copy an exact value has it in the report.
func defuse(s string) string {
	s = dotted.ReplaceAllStringFunc(s, func(token string) string {
		labels := strings.Split(token, ".")
		last := labels[len(labels)-1]
		if !letters.MatchString(last) || len(labels) == 2 && instanceSize.MatchString(last) {
			return token
		}
		return strings.Join(labels, "."+breaker)
	})
	return strings.NewReplacer(
		"@", "@"+breaker, "://", ":"+breaker+"//", "](", "]"+breaker+"(", "#", "#"+breaker,
	).Replace(schemes.ReplaceAllString(s, "$1"+breaker+":"))
}
