package report

import (
	"bytes"
	"encoding/json"
	"maps"
)

// withoutDefaults leaves out of a SARIF log what the library writes for what
// was never set: null, "", -1 (which SARIF gives index, rank and offsets as
// their default) and what is empty. An empty list of results stays: it says
// that the scan ran and found nothing (3.14.23). Properties are ours.
func withoutDefaults(log []byte) ([]byte, error) {
	dec := json.NewDecoder(bytes.NewReader(log))
	dec.UseNumber()
	var doc map[string]any
	if err := dec.Decode(&doc); err != nil {
		return nil, err
	}
	prune(doc)
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", "  ")
	err := enc.Encode(doc)
	return b.Bytes(), err
}

func prune(object map[string]any) {
	maps.DeleteFunc(object, func(key string, value any) bool {
		switch value := value.(type) {
		case nil:
			return true
		case string:
			return value == "" && key != "text"
		case json.Number:
			n, err := value.Float64()
			return err == nil && n == -1
		case []any:
			for _, element := range value {
				if o, ok := element.(map[string]any); ok {
					prune(o)
				}
			}
			return len(value) == 0 && key != "results"
		case map[string]any:
			if key != "properties" {
				prune(value)
			}
			return len(value) == 0
		}
		return false
	})
}
