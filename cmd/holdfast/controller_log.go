package main

import (
	"io"
	"slices"

	"github.com/go-logr/logr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	crzap "sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/holdfast-io/holdfast/providers"
)

// logLevels are the names of levels, the quietest first. logr's V(n) is zap's
// level -n.
var logLevels = []struct {
	name  string
	level zapcore.Level
}{
	{"error", zapcore.ErrorLevel},
	{"info", zapcore.InfoLevel},
	{"debug", -4},
	{"trace", -9},
}

func logLevelNames() []string {
	out := make([]string, len(logLevels))
	for i, l := range logLevels {
		out[i] = l.name
	}
	return out
}

// newLogger writes to w. The configuration has been checked.
func newLogger(c *controllerConfig, w io.Writer) logr.Logger {
	i := slices.IndexFunc(logLevels, func(l struct {
		name  string
		level zapcore.Level
	}) bool {
		return l.name == c.LogLevel
	})
	encoder := crzap.JSONEncoder
	if c.LogFormat == "text" {
		encoder = crzap.ConsoleEncoder
	}
	return crzap.New(crzap.WriteTo(redacting{w}), crzap.RawZapOpts(zap.WrapCore(func(c zapcore.Core) zapcore.Core { return quiet{c} })), crzap.Level(logLevels[i].level), crzap.StacktraceLevel(zapcore.DPanicLevel),
		encoder(func(e *zapcore.EncoderConfig) {
			e.EncodeTime = zapcore.RFC3339NanoTimeEncoder
			// Numbers below info are logr's verbosity, which says no more.
			e.EncodeLevel = func(l zapcore.Level, to zapcore.PrimitiveArrayEncoder) {
				if l < zapcore.InfoLevel {
					l = zapcore.DebugLevel
				}
				zapcore.LowercaseLevelEncoder(l, to)
			}
		}))
}

// redacting takes passwords out of addresses that errors quote. A write is a
// line.
type redacting struct{ to io.Writer }

func (r redacting) Write(line []byte) (int, error) {
	if _, err := io.WriteString(r.to, providers.Redact(string(line))); err != nil {
		return 0, err
	}
	return len(line), nil
}

// lostAtTheEnd is what controller-runtime's manager logs as an error whenever a
// leader stops because it was told to.
const lostAtTheEnd = "error received after stop sequence was engaged"

// probeFailed is what controller-runtime logs of every probe that fails, without
// the reason: [readiness] says it once, and with the reason.
const probeFailed = "healthz check failed"

// quiet leaves both out: nobody should be woken for a clean stop, or look for
// the line that matters among probes.
type quiet struct{ zapcore.Core }

func (q quiet) With(fields []zapcore.Field) zapcore.Core { return quiet{q.Core.With(fields)} }

func (q quiet) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if q.Enabled(e.Level) {
		return to.AddCore(e, q)
	}
	return to
}

func (q quiet) Write(e zapcore.Entry, fields []zapcore.Field) error {
	if e.Level == zapcore.InfoLevel && e.Message == probeFailed {
		return nil
	}
	for _, f := range fields {
		if err, ok := f.Interface.(error); ok && e.Message == lostAtTheEnd && err.Error() == "leader election lost" {
			return nil
		}
	}
	return q.Core.Write(e, fields)
}
