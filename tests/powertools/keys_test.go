// Package powertools_test compares the records of package dynamostore with the records of Powertools for AWS Lambda, in
// Python and in TypeScript.
package powertools_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/oncebox/oncebox/internal/testkit/powertoolsworker"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/idempotency/powertools"
)

func TestMain(m *testing.M) { os.Exit(testengine.Main(m)) }

// values have what the languages write in different ways.
var values = []string{
	`"order-1"`, `"é\u00e9\u001f\u007f\u0080\u2028 \/ \" \\ \b\f\n\r\t"`, `"\ud83d\ude00😀\ud83d"`, `"\ude00\ud83d"`, `"<&>"`,
	`0`, `-0`, `1`, `-1`, `true`, `false`, `null`, `""`, `[]`, `{}`, `[null]`, `{"a":null}`, `[0]`, `[false,""]`, `[[]]`, `[{}]`,
	`0.0`, `-0.0`, `10.0`, `1e2`, `1E+2`, `0.1`, `1e15`, `1e16`, `123456789012345680.0`, `1e21`, `1e20`, `1e22`, `0.0001`,
	`0.00001`, `0.000001`, `0.0000001`, `1.5e-7`, `5e-324`, `1.7976931348623157e308`, `1e-400`, `2.5e-10`, `123e-20`,
	`9007199254740993`, `12345678901234567890`, `-12345678901234567890123456789012345678901234567890`, `0.1234567890123456789`,
	`{"b":1,"a":[1,[2,{"d":1,"c":2}]],"B":2,"A":3}`, `{"b":1,"B":2}`, `{"B":2,"b":1}`, `{"10":1,"9":2,"01":3,"-1":4,"a":5}`,
	`{"4294967295":1,"4294967294":2,"a":3,"0":4}`, `{"a":1,"b":2,"a":3}`, `{"__proto__":1,"a":2}`, `{"__proto__":{"a":1}}`,
	`{"é":1,"É":2,"z":3,"Z":4}`, `{"😀":1,"\uffff":2}`, `{"İ":1,"i":2,"ı":3,"I":4}`, `{"a b":1,"a_b":2,"A-b":3}`,
	` { "a" : [ 1 , 2 ] , "b" : { } } `, `{"":1}`, `{"Σ":1}`, `{"toJSON":1}`,
	strings.Repeat("[", 100) + strings.Repeat("]", 100),
}

// TestKeys: the keys of both packages are the same for values that the languages write in different ways, and for
// random ones.
func TestKeys(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	random := rand.New(rand.NewPCG(35, 4))
	texts := slices.Clone(values)
	for range 600 {
		texts = append(texts, randomValue(random, 4))
	}
	texts = append(texts, letters()...)
	for _, format := range powertoolsworker.Formats {
		t.Run(string(format), func(t *testing.T) {
			t.Parallel()
			answer := powertoolsworker.Start(t, format).Ask(t, powertoolsworker.Request{Do: "hashes", Texts: texts})
			if len(answer.Hashes) != len(texts) {
				t.Fatalf("%d texts, and %d hashes", len(texts), len(answer.Hashes))
			}
			for n, theirs := range answer.Hashes {
				ours, err := format.Key([]byte(texts[n]))
				switch {
				case theirs.Error == "IdempotencyKeyError":
					if !errors.Is(err, powertools.ErrNoKey) {
						t.Errorf("%s: they find no key, and we have %q, %v", texts[n], ours, err)
					}
				case err != nil || "prefix#"+ours != theirs.Key || !format.IsKey(ours):
					t.Errorf("%s: we have %q, %v; they have %+v", texts[n], ours, err, theirs)
				}
			}
		})
	}
}

// letters returns an object for each letter that has another lower case, in which it is compared. It leaves out the
// neighbour of a letter that has had one since Unicode 16, which Node 20 does not know.
func letters() (objects []string) {
	for r := rune(0x80); r < 0x20000; r++ {
		if lower := unicode.ToLower(r); lower != r && r != 'Σ' && lower != 0xA7CA {
			objects = append(objects, fmt.Sprintf(`{"%c":1,"%c":2,"%c":3}`, lower+1, r, max(lower-1, 'a')))
		}
	}
	return objects
}

// randomValue returns the text of a random JSON value.
func randomValue(random *rand.Rand, levels int) string {
	kinds := 7
	if levels <= 0 {
		kinds = 5
	}
	switch random.IntN(kinds) {
	case 0:
		return fmt.Sprint(random.Int64() >> random.IntN(64) * int64(1-2*random.IntN(2)))
	case 1:
		for {
			f := math.Float64frombits(random.Uint64())
			if random.IntN(2) == 0 {
				f = math.Trunc(random.Float64()*1000) / math.Pow(10, float64(random.IntN(12)))
			}
			if !math.IsNaN(f) && !math.IsInf(f, 0) {
				return fmt.Sprintf([]string{"%g", "%e", "%.3f"}[random.IntN(3)], f)
			}
		}
	case 2:
		return []string{"true", "false", "null"}[random.IntN(3)]
	case 3, 4:
		return randomText(random)
	case 5:
		items := make([]string, random.IntN(5))
		for n := range items {
			items[n] = randomValue(random, levels-1)
		}
		return "[" + strings.Join(items, ", ") + "]"
	}
	members := make([]string, random.IntN(50)*random.IntN(2)+random.IntN(4)) // more than 32 are sorted in another way
	for n := range members {
		members[n] = randomText(random) + " :" + randomValue(random, levels-1-len(members))
	}
	return "{" + strings.Join(members, ",") + "}"
}

// randomText returns the text of a random string; often a short one, so that names differ in case only.
func randomText(random *rand.Rand) string {
	var text strings.Builder
	for range random.IntN(6) {
		switch random.IntN(8) {
		case 0:
			fmt.Fprintf(&text, `\u%04x`, random.IntN(0x10000))
		case 1:
			text.WriteString([]string{`\n`, `\"`, `\\`, `\/`, `\b`, `\ud83d\ude00`}[random.IntN(6)])
		case 2:
			text.WriteRune([]rune{'é', 'É', '😀', '\u2028', 'Ж', 'ж', 'ß', '\u007f'}[random.IntN(8)])
		case 3:
			fmt.Fprint(&text, random.IntN(20))
		default:
			text.WriteByte("aAbBzZ_-"[random.IntN(8)])
		}
	}
	if out := `"` + text.String() + `"`; json.Valid([]byte(out)) && !strings.Contains(out, "03a3") {
		return out
	}
	return `"x"`
}
