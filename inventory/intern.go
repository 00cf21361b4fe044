package inventory

import "reflect"

// texts are the strings of one load, each kept once. Ten thousand machines say
// the same few things of themselves: kinds, names of clusters and templates,
// reasons, versions. Decoded, each stands in memory for itself.
type texts map[string]string

// longText bounds what is shared; what is longer is seldom said twice.
const longText = 128

func (t texts) one(s string) string {
	if s == "" || len(s) > longText {
		return s
	}
	if known, ok := t[s]; ok {
		return known
	}
	t[s] = s
	return s
}

// share lets the strings of a value stand for those that were seen before. Maps
// keep their own keys.
func (t texts) share(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if v.CanSet() {
			v.SetString(t.one(v.String()))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			t.share(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() {
				t.share(f)
			}
		}
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		for i := range v.Len() {
			t.share(v.Index(i))
		}
	case reflect.Map:
		if v.Type().Elem().Kind() != reflect.String || v.IsNil() {
			return
		}
		for iter := v.MapRange(); iter.Next(); {
			v.SetMapIndex(iter.Key(), reflect.ValueOf(t.one(iter.Value().String())).Convert(v.Type().Elem()))
		}
	}
}
