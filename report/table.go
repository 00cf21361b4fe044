package report

import "io"

func writeTable(w io.Writer, r *Report, s Style) error { return nil }
func writeWide(w io.Writer, r *Report, s Style) error  { return nil }
