package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/oncebox/oncebox/pkg/kpl"
)

// marker is the member by which people and programs recognise scratch records. Its value is the suffix of the run.
const marker = "oncebox_doctor"

// These are the scratch records. A copy of the first has the same id and content. The second has the first's id and
// other content.
const (
	first     = 1
	second    = 2
	third     = 3 // the third and the fourth are in a KPL aggregate
	fourth    = 4
	firstCopy = first
)

// payload returns a scratch record with an id at a path, in the syntax of ONCEBOX_ID_PATH.
func payload(idPath, suffix, id string, n int) ([]byte, error) {
	whole := set(map[string]any{marker: suffix, "n": n}, strings.Split(idPath, "."), id)
	if _, ok := whole.(map[string]any); !ok {
		return nil, errors.New("the record would not be an object")
	}
	return json.Marshal(whole)
}

// set sets the value at a path of names and indexes.
func set(in any, path []string, value string) any {
	if len(path) == 0 {
		return value
	}
	const mostElements = 100
	if i, err := strconv.Atoi(path[0]); err == nil && i < mostElements && in == nil {
		elements := make([]any, i+1)
		elements[i] = set(nil, path[1:], value)
		return elements
	}
	members, ok := in.(map[string]any)
	if !ok {
		members = map[string]any{}
	}
	members[path[0]] = set(members[path[0]], path[1:], value)
	return members
}

// payloads returns the records of a run. It checks that the function will find their ids.
func (r *recordsRun) payloads(ctx context.Context) (all map[int][]byte, err error) {
	all = map[int][]byte{}
	for n, id := range map[int]string{first: r.id(first), second: r.id(first), third: r.id(third), fourth: r.id(fourth)} {
		if all[n], err = payload(r.Function.Env["ONCEBOX_ID_PATH"], r.suffix, id, n); err != nil {
			return nil, err
		}
		fields, err := r.options.Format.Read(ctx, all[n])
		if err != nil || fields.ID != id {
			return nil, fmt.Errorf("doctor cannot make a record whose id is at %s", r.Function.Env["ONCEBOX_ID_PATH"])
		}
	}
	return all, nil
}

// poisonPayload returns a payload that is not JSON.
func (r *recordsRun) poisonPayload() []byte {
	return []byte(`{"` + marker + `":"` + r.suffix + `","poison":`)
}

// aggregate puts records into a KPL aggregate.
func aggregate(key string, payloads ...[]byte) []byte {
	var e kpl.Encoder
	for _, p := range payloads {
		e.Add(kpl.UserRecord{PartitionKey: []byte(key), Data: p})
	}
	return e.Bytes()
}

// userRecords returns the records in an aggregate. For a plain record it returns the record itself.
func userRecords(data []byte) (all [][]byte, aggregated bool) {
	var d kpl.Decoder
	records, aggregated, err := d.Decode(data)
	if err != nil || !aggregated {
		return [][]byte{data}, false
	}
	for _, u := range records {
		all = append(all, u.Data)
	}
	return all, true
}
