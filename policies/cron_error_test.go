package policies

import (
	"testing"
	"time"
)

// TestCronErrors: what is wrong with a schedule is said of the field that it is
// wrong with.
func TestCronErrors(t *testing.T) {
	for expr, want := range map[string]string{
		"fry * * * *":                  `minute field "fry" is not a number`,
		"* mon * * *":                  `hour field "mon" is not a number`,
		"* * L * *":                    `day-of-month field "L" is not a number`,
		"* * * fbe *":                  `month field "fbe" is not a number or name, did you mean feb?`,
		"* * * * fry":                  `weekday field "fry" is not a number or name, did you mean fri?`,
		"* * * * mon-Fry":              `weekday field "mon-Fry": "Fry" is not a number or name, did you mean fri?`,
		"* * * * whenever":             `weekday field "whenever" is not a number or name`,
		"0/x * * * *":                  `minute field "0/x": "x" is not a number`,
		"-1 * * * *":                   `minute field "-1" lacks a number`,
		"99 * * * *":                   `minute field "99": 99 is more than 59`,
		"* * 0 * *":                    `day-of-month field "0": 0 is less than 1`,
		"* 5-2 * * *":                  `hour field "5-2": beginning of range (5) beyond end of range (2)`,
		"*/0 * * * *":                  `minute field "*/0": step of range should be a positive number`,
		"99999999999999999999 * * * *": `minute field "99999999999999999999" has too large a number`,
		"0 8 * *":                      "it has 4 fields, not 5",
		" ":                            "it has 0 fields, not 5",
		"@dayly":                       "@dayly is none of @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly",
	} {
		if _, err := newWallSchedule(expr, time.UTC); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", expr, err, want)
		}
	}
}
