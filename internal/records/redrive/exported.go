package redrive

import (
	"bytes"
	"encoding/json"
	"path/filepath"

	"github.com/oncebox/oncebox/pkg/deadletter"
)

// exported is the member that Exported adds to a letter: the place of its object.
type exported struct {
	From deadletter.Place `json:"exported_from"`
}

// Exported returns the content of a letter, a JSON object, with the place of its object as its last member. So the
// marker of a letter that is redriven from a file is beside its object, which a run over the store finds.
func Exported(content []byte, from deadletter.Place) ([]byte, error) {
	if from.Path != "" {
		absolute, err := filepath.Abs(from.Path)
		if err != nil {
			return nil, err
		}
		from.Path = absolute
	}
	member, err := json.Marshal(exported{from})
	if err != nil {
		return nil, err
	}
	open := bytes.TrimSuffix(bytes.TrimSpace(content), []byte("}"))
	return append(append(bytes.Clone(open), ','), member[1:]...), nil
}

// nameIn returns the name of a letter that was read from a file, for its markers in a store. It is the name of its
// object, if the letter was exported from that store. Other letters have a name in a folder of the store.
func nameIn(a *deadletter.Archive, folder string, content []byte, letter deadletter.Letter) string {
	var e exported
	if json.Unmarshal(content, &e) == nil {
		if name, ok := a.NameOf(e.From); ok {
			return name
		}
	}
	return folder + letter.Base()
}
