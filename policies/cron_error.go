package policies

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/robfig/cron/v3"
)

// cronFields are the fields of a schedule in their order, with the names that
// may stand in them.
var cronFields = []struct {
	name  string
	words []string
}{
	{name: "minute"}, {name: "hour"}, {name: "day-of-month"},
	{name: "month", words: strings.Fields("jan feb mar apr may jun jul aug sep oct nov dec")},
	{name: "weekday", words: strings.Fields("sun mon tue wed thu fri sat")},
}

var cronWords = []string{"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}

// cronError says which field of a schedule is wrong, and what is wrong with
// it: the parser names neither.
func cronError(expr string, err error) error {
	fields := strings.Fields(expr)
	switch {
	case strings.HasPrefix(strings.TrimSpace(expr), "@"):
		return fmt.Errorf("%s is none of %s", strings.TrimSpace(expr), strings.Join(cronWords, ", "))
	case len(fields) != len(cronFields):
		return fmt.Errorf("it has %d fields, not %d", len(fields), len(cronFields))
	}
	for i, field := range fields {
		alone := slices.Repeat([]string{"*"}, len(fields))
		alone[i] = field
		if _, fieldErr := cron.ParseStandard(strings.Join(alone, " ")); fieldErr != nil {
			return fieldError(i, field, fieldErr.Error())
		}
	}
	return err
}

var (
	noNumber   = regexp.MustCompile(`parsing "([^"]*)": invalid syntax`)
	outOfRange = regexp.MustCompile(`\((\d+)\) (below minimum|above maximum) \((\d+)\)`)
)

func fieldError(i int, field, message string) error {
	f := cronFields[i]
	which := fmt.Sprintf("%s field %q", f.name, field)
	if m := noNumber.FindStringSubmatch(message); m != nil {
		return wordError(which, field, m[1], f.words)
	}
	if m := outOfRange.FindStringSubmatch(message); m != nil {
		return fmt.Errorf("%s: %s is %s %s", which, m[1], map[string]string{"below minimum": "less than", "above maximum": "more than"}[m[2]], m[3])
	}
	if strings.Contains(message, "value out of range") {
		return fmt.Errorf("%s has too large a number", which)
	}
	return fmt.Errorf("%s: %s", which, strings.TrimSuffix(message, ": "+field))
}

// wordError is about a word of a field that is neither a number nor a name.
func wordError(which, field, word string, names []string) error {
	if word == "" {
		return fmt.Errorf("%s lacks a number", which)
	}
	if word != field {
		which += fmt.Sprintf(": %q", word)
	}
	if names == nil {
		return fmt.Errorf("%s is not a number", which)
	}
	text := which + " is not a number or name"
	if n := nearest(strings.ToLower(word), names); n != "" {
		text += fmt.Sprintf(", did you mean %s?", n)
	}
	return errors.New(text)
}
