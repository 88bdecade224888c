package stack

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/internal/testkit/goldenfile"
)

var update = flag.Bool("update", false, "write the golden templates anew")

const (
	root = "../.."

	theirKey         = "arn:aws:kms:eu-west-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
	oldKey           = "arn:aws:kms:eu-west-1:123456789012:key/0f0f0f0f-12ab-34cd-56ef-1234567890ab"
	theirStream      = "arn:aws:kinesis:eu-west-1:123456789012:stream/theirs"
	theirQueue       = "arn:aws:sqs:eu-west-1:123456789012:theirs"
	theirTable       = "arn:aws:dynamodb:eu-west-1:123456789012:table/their-items/stream/2027-03-01T09:00:00.291"
	theirLogs        = "arn:aws:logs:eu-west-1:123456789012:log-group:/their/service"
	fifoQueue        = "https://sqs.eu-west-1.amazonaws.com/123456789012/unique.fifo"
	theirCache       = "clustercfg.theirs.abc123.euw1.cache.amazonaws.com:6379"
	theirSecret      = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:valkey/theirs-a1B2c3"
	theirCertificate = "arn:aws:acm:eu-west-1:123456789012:certificate/1234abcd-12ab-34cd-56ef-1234567890ab"
	theirVault       = "arn:aws:backup:eu-west-1:210987654321:backup-vault:theirs"

	theirTopic = "arn:aws:sns:eu-west-1:123456789012:theirs"
)

// goldenFolder has the goldens. Package goldenfile says what a file holds.
const goldenFolder = "testdata/goldens"

// A golden is a template that the stack is compared with. Its file has the whole template, or the difference to bases.
type golden struct {
	name     string
	bases    []string                  // to which the file has the difference; a golden without bases is one
	settings map[string]any            // of infra.NewStack
	make     func(*testing.T) template // instead of infra.NewStack
}

// The bases of goldens.
var (
	onClaims  = []string{"claims"}
	onRecords = []string{"records"}
	onBoth    = []string{"claims", "records"}
)

const (
	jwt = "auth=jwt; jwt-issuer=https://issuer.example/pool; jwt-audience=web,mobile"

	// link has two keys, as during a rotation.
	link = "auth=link; link-keys=" + linkKey + "," + otherLinkKey + "; page=on; cors-origins=https://shop.example,http://localhost:3000"

	challenge = "challenge=turnstile?site-key=1x00000000000000000000AA&secret-arn=" + theirSecret +
		"&url=https://challenge.example/siteverify&hosts=shop.example,www.shop.example"

	linkKey      = "MCowBQYDK2VwAyEAXNrKN/1BSTrXh2Yh4XDXVZCaPEsyoaN56Dmzlf/hrzg="
	otherLinkKey = "MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="

	everythingExists = "bank-table=their-bank; dedupe-table=their-dedupe; " +
		"source=" + theirStream + "; source-retention=168h; sink=kinesis:others; " +
		"dead-letter-bucket=their-dead-letters; notify-queue=" + theirQueue

	// formerKeys is a stack whose key was changed once, to none, with everything that a function can decrypt.
	formerKeys = "former-keys=" + oldKey + "; " + challenge + "; sink=s3://their-lake/records; " +
		"ledger=valkey://cache.example:6379?secret-arn=" + theirSecret

	theirNetwork = "subnets=subnet-0a1b2c3d,subnet-0a1b2c3d4e5f60718; security-groups=sg-0a1b2c3d4e5f60718"

	rawLines = "claims=none; id-path=; format=raw; raw-id=content; source-records=lines"

	// everySetting has a value other than the default for everything that the other goldens leave out. Where there are
	// limits, the value is at one.
	everySetting = "architecture=x86_64; runbook-url=https://wiki.example/oncebox; tracing=on; " +
		"claims.reserved-concurrency=200; records.reserved-concurrency=40; " +
		"warm-read-units=12000; warm-write-units=4000; metrics=off; log-level=warn; system-log-level=warn; " +
		"alarm-topic=" + theirTopic + "; log-retention-days=3653; disposable=on; endpoint-url=http://localhost:8000; " +
		"auth=open; campaign-cache=0; rate-limit=1; burst-limit=2; sweep-every=24h; " +
		"id-path=event.id; fingerprint-path=event.print; contexts-path=event.contexts; " +
		"ids=first-keeps; scope=orders; window=3d; horizon=365d; natural=off; synthetic=off; acks=off; " +
		"poison-limit=100% of 1; source-aggregation=off; sink=kinesis?aggregation=none&max-record=10MiB; " +
		"source-retention=8760h; ledger=keys?concurrency=64; batch-window=300s; parallelization=10; " +
		"retries=-1; record-age=60s; done-letter-expiry=90d"
)

// noTexts are values that are no texts in the file.
var noTexts = map[string]any{
	"dashboard": true, "batch-size": 10000, "volatile": []any{"sent_at", "trace"}, "termination-protection": false,
}

// goldens starts with the bases, so that -update writes them before the differences to them.
var goldens = []golden{
	{name: "claims", settings: values("records=none")},
	{name: "records", settings: values("claims=none")},
	{name: "default", bases: onBoth, settings: map[string]any{}},
	{name: "challenge", bases: onClaims, settings: values("records=none; claimant-from=iam; sweep=off; " + challenge)},
	{name: "derived-ids", bases: onRecords, settings: values("claims=none; source-retention=24h; retries=0; " +
		"acks=off; ids=derived")},
	{name: "snowplow", bases: onRecords, settings: values("claims=none; canary=30m; format=snowplow; id-path=; " +
		"volatile=page_title, useragent")},
	{name: "existing", bases: onBoth, settings: values(everythingExists)},
	{name: "jwt", bases: onClaims, settings: values(jwt + "; jwt-scopes=claims/own,claims/all; records=none; canary=10m; " +
		"claimants-confirm=on; sweep-every=1h; nearly-empty=5; domain-name=claims.example.com; " +
		"certificate=" + theirCertificate + "; execute-api-endpoint=off")},
	{name: "link", bases: onClaims, settings: values(link + "; records=none")},
	{name: "customer-key", bases: onBoth, settings: values("encryption-key=" + theirKey + "; encrypt-environment=on; " +
		"nearly-empty=0; encrypt-logs=on; dashboard=on; canary=15m; backup-vault=" + theirVault +
		"; backup-days=90; backup-bucket=their-exports; " + theirNetwork)},
	{name: "former-keys", bases: onBoth, settings: values(formerKeys)},
	{name: "every-setting", bases: onBoth, settings: with(values(everySetting), noTexts)},
	{name: "firehose", bases: onRecords, settings: values(rawLines + "; sink=firehose:unique?delimiter=none")},
	{name: "queue", bases: onRecords, settings: values("claims=none; sink=sqs:" + fifoQueue + "?encoding=base64; encryption-key=" + theirKey)},
	{name: "from-queue", bases: onRecords, settings: values("claims=none; source=sqs; batch-size=100; batch-window=20s")},
	{name: "from-table", bases: onRecords, settings: values("claims=none; id-path=eventID; source=" + theirTable)},
	{name: "from-logs", bases: onRecords, settings: values("claims=none; source=" + theirLogs)},
	{name: "objects", bases: onRecords, settings: values("claims=none; " +
		"sink=s3://their-lake/events/?format=raw&compression=zstd&object-size=128MiB; " +
		"batch-window=300s; encryption-key=" + theirKey)},
	{name: "table", bases: onRecords, settings: values("claims=none; " +
		"sink=dynamodb:their-items?key=customer=customer.id,n&version=changed_at&delete=change=delete; encryption-key=" + theirKey)},
	{name: "log", bases: onRecords, settings: values("claims=none; ledger=log?lanes=16&memory=4GiB; " +
		"records.memory=6144; expected-rate=33000; window=1h")},
	{name: "valkey", bases: onRecords, settings: values("claims=none; ledger=valkeys://" + theirCache +
		"?buckets=864000&previous=old." + theirCache + "&previous-buckets=65536&since=2027-03-01T09:00:00Z" +
		"&secret-arn=" + theirSecret + "; " +
		"encryption-key=" + theirKey + "; " + theirNetwork)},
}

func (g golden) file() string { return goldenfile.Path(goldenFolder, g.name) }

func (g golden) read(t *testing.T) template {
	t.Helper()
	tpl, err := goldenfile.Read(goldenFolder, g.name)
	must(t, err)
	return tpl
}

// readGolden returns a golden by its name.
func readGolden(t *testing.T, name string) template {
	t.Helper()
	return golden{name: name}.read(t)
}

// TestGoldens compares the templates that infra makes with the goldens.
func TestGoldens(t *testing.T) {
	for _, g := range slices.Concat(goldens, plainGoldens) {
		t.Run(g.name, func(t *testing.T) {
			var made template
			if g.make == nil {
				made = synth(t, g.settings)
			} else {
				made = g.make(t)
			}
			made = normalized(t, made)
			var settings map[string]any
			if g.settings != nil {
				settings = fileOf(t, g.settings)
			}
			content, err := goldenfile.Content(goldenFolder, g.bases, settings, made)
			must(t, err)
			if *update {
				must(t, os.WriteFile(g.file(), content, 0o644))
				return
			}
			if found := differences("", g.read(t), made); len(found) > 0 {
				t.Errorf("the template differs from %s:\n%s\nIf that is intended, run `go test ./tests/stack -update`.",
					g.file(), strings.Join(found, "\n"))
				return
			}
			if written, err := os.ReadFile(g.file()); err != nil || !bytes.Equal(written, content) {
				t.Errorf("%s has the right template in another form (%v). Run `go test ./tests/stack -update`.", g.file(), err)
			}
		})
	}
}

// TestEveryGoldenIsMade finds files that no golden writes any more.
func TestEveryGoldenIsMade(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(goldenFolder + "/*")
	must(t, err)
	var want []string
	for _, g := range slices.Concat(goldens, plainGoldens) {
		want = append(want, g.file())
	}
	slices.Sort(want)
	if !slices.Equal(files, want) {
		t.Errorf("the folder holds %v\nwant %v", files, want)
	}
}

// assetHash is the hash of an asset's content.
var assetHash = regexp.MustCompile(`\b[0-9a-f]{64}\b`)

// versionHash is the hash of a function's code and configuration in the name of its version.
var versionHash = regexp.MustCompile(`(CurrentVersion[0-9A-F]{8})[0-9a-f]{32}\b`)

// normalized replaces the hashes of assets, which depend on how the CDK packs files, and the hashes of versions, which
// depend on those of assets.
func normalized(t *testing.T, tpl template) template {
	t.Helper()
	var decoded template
	hashless := assetHash.ReplaceAll(encoded(t, tpl), []byte("ASSET"))
	must(t, json.Unmarshal(versionHash.ReplaceAll(hashless, []byte("${1}HASH")), &decoded))
	return decoded
}

func encoded(t *testing.T, tpl template) []byte {
	t.Helper()
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetIndent("", " ")
	encoder.SetEscapeHTML(false)
	must(t, encoder.Encode(tpl))
	return out.Bytes()
}

// differences lists where two values of templates differ, one line a place.
func differences(path string, want, got any) (all []string) {
	if w, ok := want.(template); ok {
		want = map[string]any(w)
	}
	if g, ok := got.(template); ok {
		got = map[string]any(g)
	}
	wanted, made := members(want), members(got)
	if reflect.TypeOf(want) != reflect.TypeOf(got) || wanted == nil {
		if !reflect.DeepEqual(want, got) {
			all = append(all, fmt.Sprintf("%s\n\tgolden: %s\n\tstack:  %s", path, shown(want), shown(got)))
		}
		return all
	}
	names := maps.Clone(wanted)
	maps.Copy(names, made)
	for _, name := range slices.SortedFunc(maps.Keys(names), byNumber) {
		all = append(all, differences(strings.TrimPrefix(path+"."+name, "."), wanted[name], made[name])...)
	}
	return all
}

// members returns what is in an object or a list, or nil for any other value.
func members(value any) map[string]any {
	switch v := value.(type) {
	case map[string]any:
		return v
	case []any:
		all := map[string]any{}
		for i, element := range v {
			all[strconv.Itoa(i)] = element
		}
		return all
	}
	return nil
}

// byNumber sorts the indexes of a list as numbers.
func byNumber(a, b string) int {
	i, errA := strconv.Atoi(a)
	j, errB := strconv.Atoi(b)
	if errA == nil && errB == nil {
		return i - j
	}
	return strings.Compare(a, b)
}

// shown writes a value of a template for a reader.
func shown(value any) string {
	if value == nil {
		return "nothing"
	}
	return rendered(value)
}

// TestDifferencesAreFound plants one difference of each kind.
func TestDifferencesAreFound(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(template){
		"Outputs.BankTable.Value\n\tgolden: ${ClaimsBankTable521EF770}\n\tstack:  other": func(tpl template) {
			at(tpl, "Outputs.BankTable").(map[string]any)["Value"] = "other"
		},
		"Outputs.More\n\tgolden: nothing\n\tstack:  {\"Value\":1}": func(tpl template) {
			tpl["Outputs"].(map[string]any)["More"] = object("Value", 1.0)
		},
		"Outputs.ApiUrl.Description\n\tgolden: The claim API\n\tstack:  nothing": func(tpl template) {
			delete(at(tpl, "Outputs.ApiUrl").(map[string]any), "Description")
		},
		"Rules.CheckBootstrapVersion.Assertions.0.Assert.Fn::Not.1\n\tgolden: nothing\n\tstack:  true": func(tpl template) {
			not := at(tpl, "Rules.CheckBootstrapVersion.Assertions.0.Assert").(map[string]any)
			not["Fn::Not"] = append(list(not["Fn::Not"]), true)
		},
	} {
		changed := readGolden(t, "default")
		change(changed)
		if got := differences("", readGolden(t, "default"), changed); !slices.Equal(got, []string{want}) {
			t.Errorf("got %q\nwant %q", got, want)
		}
	}
}
