package report

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Format is one way to write a report.
type Format string

// Formats.
const (
	FormatTable       Format = "table"
	FormatWide        Format = "wide" // table with everything
	FormatJSON        Format = "json"
	FormatYAML        Format = "yaml"
	FormatMarkdown    Format = "markdown"
	FormatHTML        Format = "html"
	FormatSARIF       Format = "sarif"
	FormatJUnit       Format = "junit"
	FormatOpenReports Format = "openreports"
)

// writer writes a whole report in one format. Style matters to tables only.
type writer func(io.Writer, *Report, Style) error

var writers = map[Format]writer{
	FormatTable:       writeTable,
	FormatWide:        writeWide,
	FormatJSON:        writeJSON,
	FormatYAML:        writeYAML,
	FormatMarkdown:    writeMarkdown,
	FormatHTML:        writeHTML,
	FormatSARIF:       writeSARIF,
	FormatJUnit:       writeJUnit,
	FormatOpenReports: writeOpenReports,
}

// Formats gives the names of all formats, in the order of their documentation.
func Formats() []string {
	all := []Format{FormatTable, FormatWide, FormatJSON, FormatYAML, FormatMarkdown, FormatHTML, FormatSARIF, FormatJUnit, FormatOpenReports}
	names := make([]string, len(all))
	for i, f := range all {
		names[i] = string(f)
	}
	return names
}

// Output is one thing to write: a format, and the file to write it to. An
// empty File is standard output.
type Output struct {
	Format Format
	File   string
}

// ParseOutput reads one value of -o: FORMAT or FORMAT=FILE.
func ParseOutput(s string) (Output, error) {
	name, file, hasFile := strings.Cut(s, "=")
	format := Format(strings.ToLower(strings.TrimSpace(name)))
	if format == "md" {
		format = FormatMarkdown
	}
	if !slices.Contains(Formats(), string(format)) {
		return Output{}, fmt.Errorf("output format %q is not known: want one of %s, each with =FILE to write a file", name, strings.Join(Formats(), ", "))
	}
	if hasFile && file == "" {
		return Output{}, fmt.Errorf("output %q names no file: write %s=FILE, or %s alone for standard output", s, format, format)
	}
	if file == "-" {
		file = ""
	}
	return Output{Format: format, File: file}, nil
}

// ParseOutputs reads all values of -o; none means a table on standard output.
// Two outputs to one place are an error: they would overwrite or mix with each
// other.
func ParseOutputs(values []string) ([]Output, error) {
	if len(values) == 0 {
		return []Output{{Format: FormatTable}}, nil
	}
	taken := map[string]Format{}
	outputs := make([]Output, 0, len(values))
	for _, v := range values {
		o, err := ParseOutput(v)
		if err != nil {
			return nil, err
		}
		if other, ok := taken[o.File]; ok {
			if o.File == "" {
				return nil, fmt.Errorf("outputs %s and %s both go to standard output: give one of them a file, as in %s=FILE", other, o.Format, o.Format)
			}
			return nil, fmt.Errorf("outputs %s and %s both go to the file %s: give them different ones", other, o.Format, o.File)
		}
		taken[o.File] = o.Format
		outputs = append(outputs, o)
	}
	return outputs, nil
}

// Write writes the report to every output. Files come first and each is
// replaced whole or not at all; one that fails does not keep the others from
// being written. All errors are returned, each with its format and file.
func Write(r *Report, outputs []Output, stdout io.Writer, style Style) error {
	var errs []error
	ordered := slices.Clone(outputs)
	slices.SortStableFunc(ordered, func(a, b Output) int { return strings.Compare(b.File, a.File) })
	for _, o := range ordered {
		if err := writeOne(r, o, stdout, style); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func writeOne(r *Report, o Output, stdout io.Writer, style Style) error {
	if o.File != "" {
		style = style.forFile()
	}
	var b bytes.Buffer
	if err := Render(&b, r, o.Format, style); err != nil {
		return err
	}
	if o.File == "" {
		if _, err := stdout.Write(b.Bytes()); err != nil {
			return fmt.Errorf("write the %s report to standard output: %w", o.Format, err)
		}
		return nil
	}
	if err := replaceFile(o.File, b.Bytes()); err != nil {
		return fmt.Errorf("write the %s report to %s: %w", o.Format, o.File, err)
	}
	return nil
}

// Render writes the report in one format to w.
func Render(w io.Writer, r *Report, format Format, style Style) error {
	write, ok := writers[format]
	if !ok {
		return fmt.Errorf("write the report: format %q is not known", format)
	}
	if err := write(w, r, style); err != nil {
		return fmt.Errorf("write the report as %s: %w", format, err)
	}
	return nil
}
