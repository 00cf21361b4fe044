package providers

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// maxDepth bounds nesting; a snapshot file needs 7 levels.
const maxDepth = 32

// positioned is an error at a byte offset of the input.
type positioned struct {
	offset int64
	err    error
}

func (p *positioned) Error() string { return p.err.Error() }
func (p *positioned) Unwrap() error { return p.err }

// checkKeys refuses repeated keys, of which encoding/json would silently keep
// the last one.
func checkKeys(data []byte) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	return walk(dec, 0)
}

func walk(dec *json.Decoder, depth int) error {
	if depth > maxDepth {
		return &positioned{dec.InputOffset(), fmt.Errorf("nested more than %d deep", maxDepth)}
	}
	token, err := dec.Token()
	if err != nil {
		return err
	}
	delim, ok := token.(json.Delim)
	if !ok {
		return nil
	}
	keys := map[string]bool{}
	for dec.More() {
		if delim == '{' {
			if err := walkKey(dec, keys); err != nil {
				return err
			}
		}
		if err := walk(dec, depth+1); err != nil {
			return err
		}
	}
	_, err = dec.Token()
	return err
}

func walkKey(dec *json.Decoder, keys map[string]bool) error {
	token, err := dec.Token()
	if err != nil {
		return err
	}
	key, ok := token.(string)
	if !ok || keys[key] {
		return &positioned{dec.InputOffset(), fmt.Errorf("key %v stands twice", token)}
	}
	keys[key] = true
	return nil
}

// locate puts the line in front of an error that knows its offset.
func locate(data []byte, err error) error {
	var (
		syntax *json.SyntaxError
		typed  *json.UnmarshalTypeError
		at     *positioned
	)
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("line %d: %w", lineAt(data, syntax.Offset), err)
	case errors.As(err, &typed):
		return fmt.Errorf("line %d: %s: want %s, got %s", lineAt(data, typed.Offset), typed.Field, typed.Type, typed.Value)
	case errors.As(err, &at):
		return fmt.Errorf("line %d: %w", lineAt(data, at.offset), err)
	default:
		return err
	}
}

func lineAt(data []byte, offset int64) int {
	offset = min(max(offset, 0), int64(len(data)))
	return 1 + bytes.Count(data[:offset], []byte{'\n'})
}
