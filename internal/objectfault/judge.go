package objectfault

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/oncebox/oncebox/pkg/sink/objectsink"
)

// judge reads all objects below the prefix, as a reader does who does not know chains. It checks that each record
// that is not a duplicate is in exactly one of them.
func (w *world) judge() error {
	ctx := context.Background()
	keys, err := w.allKeys(ctx)
	if err != nil {
		return err
	}
	in := map[int]string{}                // the object of each record
	delivered := map[[2]string][]*input{} // the delivered records, by id and fingerprint
	ids := map[string]*input{}            // the delivered record, by its id in the object
	for _, key := range keys {
		if strings.HasPrefix(key[strings.LastIndex(key, "/")+1:], "_") {
			continue
		}
		o, err := w.objects.Get(ctx, key)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(o.Body)) {
			var payload payload
			if err := json.Unmarshal([]byte(line), &payload); err != nil {
				return fmt.Errorf("%s: %q: %w", key, line, err)
			}
			record := w.inputs[payload.N]
			if other, twice := in[record.n]; twice {
				return fmt.Errorf("G11: record %d is in %s and in %s", record.n, other, key)
			}
			if other := ids[payload.ID]; other != nil {
				return fmt.Errorf("G9: records %d and %d have the id %s", other.n, record.n, payload.ID)
			}
			in[record.n], ids[payload.ID] = key, record
			delivered[[2]string{record.id, record.fp}] = append(delivered[[2]string{record.id, record.fp}], record)
		}
	}
	for _, record := range w.inputs {
		switch of := delivered[[2]string{record.id, record.fp}]; {
		case len(of) == 0:
			return fmt.Errorf("G6: record %d (%s, %s) is lost", record.n, record.id, record.fp)
		case len(of) > 1:
			return fmt.Errorf("G7: record %d and its copy %d are both delivered", of[0].n, of[1].n)
		}
	}
	_, err = objectsink.Verify(ctx, w.objects, objectsink.Filter{}, func(p objectsink.Problem) {
		err = fmt.Errorf("chain: %s: %s", p.Key, p.What)
	})
	return err
}

func (w *world) allKeys(ctx context.Context) (all []string, err error) {
	for after := ""; ; {
		keys, more, err := w.objects.List(ctx, "", after)
		if all = append(all, keys...); err != nil || !more {
			return all, err
		}
		after = keys[len(keys)-1]
	}
}
