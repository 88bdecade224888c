package stack

import (
	"context"
	"debug/elf"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskinesis"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssecretsmanager"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/jsii-runtime-go"

	"github.com/oncebox/oncebox/infra"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

// logOf33000 is a log ledger for two million records a minute.
const logOf33000 = "ledger=log; expected-rate=33000"

// valkey is a Valkey ledger that may be outside of a VPC.
const valkey = "ledger=valkey://cache.example:6379"

// refusals are wrong settings (see fileOf), with the text of the error. Dots replace text between parts of the error.
var refusals = []struct{ settings, says string }{
	// Unknown names and values.
	{"records.id-pth=id", "records.id-pth in prod.yaml, line 1: did you mean id-path?"},
	{"records.ID-PATH=id", "records.ID-PATH in prod.yaml, line 1: did you mean id-path?"},
	{"records.page=on", "records.page in prod.yaml, line 1: did you mean claims.page?"},
	{"claims.log-level=info", "claims.log-level in prod.yaml, line 1: did you mean log-level?"},
	{"claims.memory=512", "claims.memory in prod.yaml, line 1: did you mean records.memory?"},
	{"no-such=1", "no-such in prod.yaml, line 1: there is no such key (allowed: alarm-topic, ... warm-write-units, claims, records)"},
	{"stack=", "stack is missing in prod.yaml; write the name of the stack"},
	{"claims=", "claims is missing in prod.yaml; write ... or `claims: none`, which deletes the API and its URL"},
	{"records=", "records is missing in prod.yaml ... about 58 USD a month ... or `records: none`"},
	{"claims=none; records=none", "claims and records are both none in prod.yaml"},
	{"claims=on", "claims in prod.yaml, line 1: write the keys of this part below it ... or `claims: none`"},
	{"auth=", "claims.auth is missing; choose iam ... jwt ... link ... or open (everybody may claim under any name)"},
	{"architecture=amd64", `architecture is "amd64"; choose arm64 or x86_64`},
	{"auth=none", `claims.auth is "none"; choose iam, jwt, link or open`},
	{"disposable=on; termination-protection=on", `termination-protection is "on"; the stack cannot be deleted, and disposable is on`},
	{"disposable=yes", "disposable is neither on nor off"},
	{"natural=no", "records.natural is neither on nor off"},
	{"synthetic=no", "records.synthetic is neither on nor off"},
	{"acks=no", "records.acks is neither on nor off"},
	{"source-aggregation=no", "records.source-aggregation is neither on nor off"},
	{"claimants-confirm=yes", "claims.claimants-confirm is neither on nor off"},
	{"sweep=never", "claims.sweep is neither on nor off"},
	{"metrics=yes", "metrics is neither on nor off"},
	{"nearly-empty=few", "claims.nearly-empty ... a whole number from 0"},
	{"nearly-empty=-1", "claims.nearly-empty"},
	{"nearly-empty=10; sweep=off", "claims.nearly-empty is 10, but claims.sweep is off, and the sweep counts them"},
	{"sweep-every=5m; sweep=off", "claims.sweep-every is 5m, but claims.sweep leaves the sweep out; change one of the two"},
	{"nearly-empty=10; metrics=off", "claims.nearly-empty is 10, but metrics is off, and it needs the metrics"},
	{"batch-size=many", "records.batch-size ... a whole number from 1"},
	{"window=2 days", "records.window is not a duration ... 24h or 7d"},
	{"id-path=${Token[x.1]}", "records.id-path in prod.yaml, line 1: it contains {Token["},
	{"endpoint-url=localhost:8000", "endpoint-url must be an http or https URL"},

	// Secrets in the wrong place, which are not repeated (see says).
	{"endpoint-url=ftp://user:hunter2@x", "endpoint-url must be an http or https URL"},
	{
		"challenge=turnstile?site-key=1x&secret-arn=0x4AAAA-hunter2",
		"claims.challenge: option secret-arn is not the ARN of a secret",
	},

	{"format=tsv", "records.format is not a known format (allowed: json, snowplow or raw)"},
	{"format=snowplow", "records.id-path is a path in JSON, and records.format is snowplow"},
	{"format=snowplow; id-path=; volatile=title", "records.volatile name 1 is not a column of enriched events"},
	{"id-path=", "records.id-path is missing"},

	// What operators set.
	{"dashboard=yes", "dashboard is neither on nor off"},
	{"tracing=yes", "tracing is neither on nor off"},
	{"runbook-url=http://wiki.example", `runbook-url is "http://wiki.example"; write the https address of a page`},
	{"runbook-url=https://wiki.example/#alarms", "runbook-url ... without a #"},
	{"encrypt-logs=on", `encrypt-logs is "on"; it needs encryption-key`},
	{"encrypt-environment=on", `encrypt-environment is "on"; it needs encryption-key`},
	{"claims.reserved-concurrency=0", "claims.reserved-concurrency ... a whole number from 1"},
	{"records.reserved-concurrency=0", "records.reserved-concurrency ... a whole number from 1"},
	{
		"domain-name=claims.example.com",
		`claims.domain-name needs claims.certificate: a certificate for "claims.example.com" of Certificate Manager`,
	},
	{"certificate=" + theirCertificate, "claims.certificate needs claims.domain-name: the host name"},
	{
		"domain-name=https://claims.example.com; certificate=" + theirCertificate,
		`claims.domain-name is "https://claims.example.com"; write a host name in lower case, as in claims.example.com`,
	},
	{"certificate=theirs", "claims.certificate ... arn:aws:acm:REGION:ACCOUNT:certificate/ID"},
	{
		"execute-api-endpoint=off",
		"claims.execute-api-endpoint=off needs claims.domain-name: without the endpoint and without a domain, no client",
	},
	{"jwt-scopes=claims", `claims.jwt-scopes needs claims.auth=jwt, and claims.auth is iam`},
	{jwt + "; jwt-scopes=a b,c", `claims.jwt-scopes are ["a b" "c"]; write scopes without white space`},

	{"backup-vault=theirs", "claims.backup-vault ... arn:aws:backup:REGION:ACCOUNT:backup-vault:NAME"},
	{"backup-vault=arn:aws:backup:eu-west-1:210987654321:backup-vault:Default", "claims.backup-vault is the vault Default"},
	{
		"encryption-key=" + theirKey + "; backup-vault=arn:aws:backup:eu-west-1:123456789012:backup-vault:ours",
		"claims.backup-vault is in 123456789012, the account of the stack; choose a vault in another account",
	},
	{"backup-bucket=theirs", "claims.backup-bucket needs claims.backup-vault"},
	{"backup-days=7", "claims.backup-days needs claims.backup-vault"},
	{"backup-vault=" + theirVault + "; backup-days=36501", "claims.backup-days is 36501; choose 1 to 36500"},
	{"backup-vault=" + theirVault + "; backup-bucket=Theirs", "claims.backup-bucket ... the name of a bucket has 3 to 63"},

	// Only an empty value means "not set".
	{"rate-limit=0", "claims.rate-limit"},
	{"sweep-every=0", "claims.sweep-every"},
	{"burst-limit=0", "claims.burst-limit"},
	{"batch-size=0", "records.batch-size"},
	{"parallelization=0", "records.parallelization"},
	{"log-retention-days=0", "log-retention-days"},
	{"window=0", "records.window"},
	{"horizon=0", "records.horizon"},
	{"source-retention=0", "records.source-retention"},
	{"record-age=0", "records.record-age"},

	// These are names of existing resources. The CDK panics for most of them.
	{"stack=my stack", `stack is "my stack"; the name of a stack has 1 to 128`},
	{"stack=1st", "stack"},
	{"stack=" + strings.Repeat("x", 129), "stack"},
	{"bank-table=a/b", "claims.bank-table is not a table name"},
	{"bank-table=" + strings.Repeat("x", 256), "claims.bank-table is not a table name"},
	{"records=none; dedupe-table=x", "dedupe-table is not a table name"},
	{"claims=none; dedupe-table=a b", "dedupe-table is not a table name"},
	{"bank-table=same; dedupe-table=same", "dedupe-table is the table of claims.bank-table"},
	{"encryption-key=alias/theirs", `encryption-key is "alias/theirs"; write an ARN, arn:aws:kms:REGION:ACCOUNT:key/NAME`},
	{"encryption-key=arn:aws:kms:eu-west-1:123456789012:theirs", "encryption-key"},
	{"encryption-key=arn:aws:kms:eu-west-1:123456789012:alias/theirs", "encryption-key"},
	{"encryption-key=arn:aws:kms:::key/theirs", "encryption-key"},
	{"former-keys=alias/theirs", `former-keys is "alias/theirs"; write ARNs`},
	{"former-keys=" + theirKey + "," + theirKey, "former-keys ... write each former key once"},
	{"encryption-key=" + theirKey + "; former-keys=" + theirKey, "former-keys ... not the key of encryption-key"},
	{
		"encryption-key=" + theirKey + "; former-keys=arn:aws:kms:us-east-1:123456789012:key/theirs",
		"former-keys ... a key is in another region",
	},
	{"canary=1m", "canary is 1m; choose 10m, 15m or 30m"},
	{"canary=on", "canary is not a duration"},
	{"canary=15m; log-level=warn", "canary is 15m, and log-level is warn: ... choose info or debug, or leave canary out"},
	{"alarm-topic=" + theirQueue, "alarm-topic ... arn:aws:sns:REGION:ACCOUNT:NAME"},
	{"alarm-topic=arn::sns:eu-west-1:123456789012:theirs", "alarm-topic"},
	{"alarm-topic=arn:aws:sns:eu-west-1:123456789012:a b", "alarm-topic"},
	{"source-retention=1d; source=theirs", "records.source ... :stream/NAME"},
	{"source-retention=1d; source=arn:aws:kinesis:eu-west-1:123456789012:theirs", "records.source"},
	{
		"source-retention=1d; source-aggregation=off; source=" + theirStream + "/consumer/fast:1",
		"records.source ... it is a consumer of a stream; write the ARN of the stream: with enhanced fan-out",
	},
	{"source-retention=1d; source=arn:aws:kinesis:eu-west-1:123456789012:stream/", "records.source"},
	{"sink=kinesis:arn:aws:kinesis:eu-west-1:123456789012:stream/theirs", "records.sink does not name a Kinesis stream"},
	{"sink=dynamodb:their-items", "records.sink: option key is missing"},
	{"sink=dynamodb:their-items?key=a,b,c", "records.sink: option key has more than two attributes"},
	{"sink=dynamodb:their-items?key=id&delete=op=d", "records.sink: option delete needs version"},
	{"sink=dynamodb:their-items?key=id; natural=off", "records.natural is off"},
	{"dedupe-table=theirs; sink=dynamodb:theirs?key=id", "records.sink is the table of dedupe-table"},
	{"bank-table=theirs; sink=dynamodb:theirs?key=id", "records.sink is the table of claims.bank-table; write another table"},
	{"sink=kinesis?key=id", "records.sink: option key is not a known setting (allowed: aggregation, max-record)"},
	{"sink=rabbitmq:theirs", "records.sink is not a known sink (allowed: kinesis:NAME, firehose:NAME, sqs:URL"},
	{"sink=sqs:theirs", "records.sink does not have the URL of an SQS queue ... https://sqs.REGION.amazonaws.com/ACCOUNT/NAME"},
	{"sink=sqs:http://localhost:4566/123456789012/theirs", "records.sink: write the queue as sqs:https://sqs.REGION.amazonaws.com/ACCOUNT/NAME"},
	{"sink=sqs:HTTPS://sqs.eu-west-1.amazonaws.com/123456789012/x", "records.sink: write the queue as"},
	{"sink=s3://lake/a*b", "records.sink: the prefix of objects ... neither ? nor *"},
	{"sink=ndjson:/tmp/out", "records.sink is a file, which does not last on Lambda; choose kinesis:"},
	{"sink=firehose:a b", "records.sink does not name a Firehose stream"},
	{
		"notify-queue=https://sqs.eu-west-1.amazonaws.com/123456789012/theirs",
		"records.notify-queue ... arn:aws:sqs:REGION:ACCOUNT:NAME",
	},
	{"notify-queue=arn::sqs:eu-west-1:123456789012:theirs", "records.notify-queue"},
	{"notify-queue=" + theirQueue + ".fifo", "records.notify-queue is a FIFO queue; choose a standard queue"},
	{"done-letter-expiry=36h", "records.done-letter-expiry is 36h; choose whole days from 1d to 3650d"},
	{
		"done-letter-expiry=30d; dead-letter-bucket=their-dead-letters",
		"records.done-letter-expiry is for the bucket that the stack makes ... records.dead-letter-bucket",
	},
	{"dead-letter-bucket=Upper", `records.dead-letter-bucket is "Upper"; the name of a bucket has 3 to 63`},
	{"dead-letter-bucket=a..b", `records.dead-letter-bucket is "a..b" ... dots only between letters or digits`},

	// Limits of AWS.
	{"log-retention-days=2", `log-retention-days is "2"; CloudWatch Logs offers [1 3 5 7 14 30 `},
	{"warm-read-units=12000", "warm-read-units is 12000 and warm-write-units is 0"},
	{"warm-read-units=11999; warm-write-units=4000", "choose at least 12000 and 4000, or set neither"},
	{
		"warm-read-units=12000; warm-write-units=4000; dedupe-table=a.b; bank-table=c.d",
		"warm-read-units and warm-write-units are for tables that the stack makes, and it makes none; leave them out",
	},
	{"warm-read-units=12000; warm-write-units=4000; claims=none; dedupe-table=a.b", "warm-write-units are for tables"},
	{"warm-read-units=12000; warm-write-units=-1", "warm-write-units ... a whole number from 0"},
	{
		"rate-limit=1001",
		"claims.rate-limit is 1001: a route can take 3003 read and 4004 write units a second of the dedupe table, which serves " +
			"12000 read and 4000 write units from its first second; raise warm-read-units and warm-write-units to these, or lower",
	},
	{
		"rate-limit=2001; dedupe-table=theirs",
		"a route can take 0 read and 4002 write units a second of the bank table, which serves 12000 read and 4000 write units",
	},
	{"rate-limit=4001; warm-read-units=12000; warm-write-units=20000", "12003 read and 16004 write units ... serves 12000 read"},
	{"batch-size=10001", "records.batch-size is 10001; choose 1 to 10000"},
	{"batch-window=301s", "records.batch-window is 5m1s; choose whole seconds up to 5m"},
	{"sweep-every=90s", "claims.sweep-every is 1m30s; choose whole minutes from 1m to 1d"},
	{"sweep-every=25h", "claims.sweep-every is 25h; choose whole minutes"},
	{"batch-window=1500ms", "records.batch-window is 1.5s"},
	{"parallelization=11", "records.parallelization is 11; choose 1 to 10"},
	{"retries=-2", "records.retries ... a whole number from -1"},
	{"retries=10001", "records.retries is 10001; choose -1 to 10000"},
	{"record-age=59s", "records.record-age is 59s; choose whole seconds from 1m to 7d"},
	{"record-age=61500ms", "records.record-age is 1m1.5s"},
	{"record-age=169h; source-retention=200h", "records.record-age is 169h"},
	{"source-retention=23h", "records.source-retention is 23h; choose whole hours from 1d to 365d"},
	{"source-retention=8761h; horizon=9000h", "records.source-retention is 8761h"},
	{"source-retention=24h30m", "records.source-retention is 24h30m"},
	{
		"volatile=" + strings.Repeat("a_member_of_some_length,", 200) + "b",
		"variables of the function have ... Lambda takes at most 4096",
	},

	// Settings that need others.
	{"jwt-audience=web", `claims.jwt-audience needs claims.auth=jwt, and claims.auth is iam`},
	{jwt + "; auth=open", "claims.jwt-issuer needs claims.auth=jwt, and claims.auth is open"},
	{jwt + "; jwt-issuer=", "claims.auth=jwt needs claims.jwt-issuer"},
	{jwt + "; jwt-issuer=http://x.example", `claims.jwt-issuer that is an https URL, not "http://x.example"`},
	{jwt + "; jwt-issuer=https:", `claims.auth=jwt needs claims.jwt-issuer that is an https URL, not "https:"`},
	{jwt + "; jwt-audience=", "claims.auth=jwt needs claims.jwt-audience ... every token of the issuer"},
	{jwt + "; jwt-audience=web,", "claims.auth=jwt needs claims.jwt-audience without empty names"},
	{jwt + "; claimant-from=body", "claims.claimant-from=body with claims.auth=jwt ... choose claims.auth=iam"},
	{jwt + "; claimant-from=iam", "claims.claimant-from=iam needs claims.auth=iam: claims.auth=jwt verifies no IAM"},
	{"page=on", "claims.page needs claims.auth=link, claims.auth=jwt or claims.auth=open: browsers sign no requests"},
	{"cors-origins=shop.example", `claims.cors-origins: "shop.example" is not an origin`},
	{"challenge=turnstile", "claims.challenge: option site-key is missing ... claims.challenge: option secret-arn is missing"},
	{"challenge=captcha", "claims.challenge is not a provider (allowed: turnstile, hcaptcha or recaptcha"},
	{"claims.challenge-hosts=shop.example", "claims.challenge-hosts in prod.yaml, line 1: there is no such key"},
	{challenge + "&host=shop.example", "claims.challenge: option host is not a known setting, did you mean hosts?"},
	{challenge + ",https://shop.example", "claims.challenge: option hosts has a value that is not a host name"},
	{"challenge=turnstile?site-key=1x&secret-file=x", "claims.challenge: option secret-file: a function on Lambda has only the files"},
	{"challenge=turnstile?site-key=1x&secret-arn=theirs", "claims.challenge: option secret-arn is not the ARN of a secret"},
	{"auth=link", "claims.link-keys is missing ... oncebox links keygen"},
	{"auth=link; link-keys=hunter2!", "claims.link-keys is wrong: key 1 is not base64"},
	{"auth=link; link-keys=file:no-such-file", `claims.link-keys is "file:no-such-file"; the file ... no-such-file cannot be read`},
	{"auth=link; link-keys=-----BEGIN PRIVATE KEY-----", "claims.link-keys is wrong: it is a private key"},
	{"link-keys=" + linkKey, "claims.link-keys needs claims.auth=link, and claims.auth is iam"},
	{link + "; claimant-from=body", "claims.claimant-from=body with claims.auth=link ... choose claims.auth=iam"},
	{link + "; claimant-from=jwt:sub", "claims.claimant-from=jwt:sub needs claims.auth=jwt"},
	{"auth=open; claimant-from=link", "claims.claimant-from=link needs claims.auth=link"},
	{"claimant-from=jwt:sub", "claims.claimant-from=jwt:sub needs claims.auth=jwt: claims.auth=iam verifies no token"},
	{"auth=open; claimant-from=jwt:sub", "claims.claimant-from=jwt:sub needs claims.auth=jwt: claims.auth=open"},
	{"auth=open; claimant-from=iam", "claims.claimant-from=iam needs claims.auth=iam"},
	{jwt + "; claimant-from=iam:session", "claims.claimant-from=iam:session needs claims.auth=iam"},
	{"auth=open; claimant-from=iam:role", "claims.claimant-from=iam:role needs claims.auth=iam"},
	{"source=" + theirStream, "records.source needs records.source-retention"},

	// Combinations that break a guarantee.
	{"horizon=167h", "records.horizon is 167h, shorter than records.source-retention, which is 7d ... delivered twice"},
	{"source-retention=15d", "records.horizon is 14d, shorter than records.source-retention, which is 15d"},
	{"record-age=7d", "records.record-age is 7d, not shorter than records.source-retention, which is 7d: the stream would"},
	{"record-age=24h; source-retention=24h", "records.record-age is 1d, not shorter than records.source-retention"},
	{
		"source-retention=1d; source=" + theirStream + "; sink=kinesis:theirs?aggregation=kpl",
		"records.source and records.sink are the same; every record would come back",
	},
	{
		"encryption-key=" + theirKey + "; sink=sqs:https://sqs.us-west-2.amazonaws.com/123456789012/x",
		"records.sink is in another account or region than the stack",
	},
	{"sink=sqs:" + fifoQueue + "; synthetic=off", "records.synthetic ... a FIFO queue drops the second"},
	{"source=sqs; batch-size=11", "records.batch-size is 11: a batch of more than 10 messages needs records.batch-window"},
	{"source=sqs; parallelization=2", "records.parallelization, records.retries and records.record-age are for streams"},
	{"source=sqs; source-retention=1d", "records.source-retention is 1d, but records.source keeps its records for 14d"},
	{"source=sqs; sink=s3://their-lake/a", "records.sink is a bucket, which takes the records of Kinesis streams only"},
	{"source=sqs; ledger=log; expected-rate=1; window=1h", "records.ledger does not store which messages of a queue are done"},
	{"source=" + theirQueue, "records.source needs records.source-retention ... aws sqs get-queue-attributes"},
	{"source-retention=29d; source=" + theirQueue, "records.source-retention is 29d; choose whole seconds from 1m to 28d"},
	{
		"source-retention=14d; batch-window=1s; source=" + theirQueue + ".fifo",
		"records.batch-window is 1s, and a FIFO queue has no window",
	},
	{"source-retention=7d; source=" + theirTable, "records.source-retention is 7d, but records.source keeps its records for 1d"},
	{"sink=s3://their-lake/a; source=" + theirTable, "records.sink is a bucket, which takes the records of Kinesis streams only"},
	{
		"record-age=24h; source=" + theirTable,
		"records.record-age is 1d, not shorter than records.source-retention, which is 1d: the stream would",
	},
	{"source=" + theirTable + "; dedupe-table=their-items", "records.source and dedupe-table are the same table: each entry is"},
	{"source=" + theirTable + "; sink=dynamodb:their-items?key=id", "records.source and records.sink are the same"},
	{"source=arn:aws:dynamodb:eu-west-1:123456789012:table/theirs", "write an ARN, arn:aws:dynamodb:REGION:ACCOUNT:table/NAME/stream/LABEL"},
	{"source=" + theirLogs + "; batch-size=9", "records.source is a log group, which has no event source mapping: leave out records.batch-size"},
	{"source=" + theirLogs + "; source-retention=1d", "records.source-retention is set, and CloudWatch Logs sends log events"},
	{"source=" + theirLogs + "; ledger=log; expected-rate=1; window=1h", "records.ledger is log, which is for large batches"},
	{
		"encryption-key=" + theirKey + "; source=" + strings.Replace(theirLogs, "123456789012", "210987654321", 1),
		"records.source is in another account, and CloudWatch Logs calls only functions of its own",
	},
	{
		"source-retention=14d; notify-queue=" + theirQueue + "; source=" + theirQueue,
		"records.source and records.notify-queue are the same queue",
	},
	{"source=theirs", `records.source is "theirs"; write sqs for a new queue, or the ARN of a Kinesis stream, a queue`},
	{"source-retention=14d; batch-size=11; source=" + theirQueue + ".fifo", "records.batch-size is 11; choose 1 to 10"},
	{
		"source-retention=14d; sink=sqs:https://sqs.eu-west-1.amazonaws.com/123456789012/theirs; source=" + theirQueue,
		"records.source and records.sink are the same; every record would come back",
	},
	{
		"encryption-key=" + theirKey + "; source-retention=1d; source=arn:aws:kinesis:us-west-2:123456789012:stream/x",
		"records.source is in us-west-2 and the stack in eu-west-1",
	},

	// What the functions would refuse.
	{"claimant-from=header", "claims.claimant-from ... jwt:CLAIM"},
	{"claimant-from=iam:user", "claims.claimant-from ... iam:session or iam:role"},
	{"campaign-cache=-1s", "claims.campaign-cache "},
	{"campaign-cache=6s", "claims.campaign-cache is longer than 5s"},
	{"log-level=loud", "log-level "},
	{"system-log-level=error", "system-log-level is \"error\"; choose debug, info or warn"},
	{"id-path=", "records.id-path is missing"},
	{"id-path=a..b", "records.id-path has an empty part"},
	{"fingerprint-path=id", "records.fingerprint-path"},
	{"volatile=a,,b", "records.volatile"},
	{"contexts-path=a.0", "records.contexts-path"},
	{"ids=rename-all", "records.ids ... first-keeps or derived"},
	{"ids=derived; synthetic=off", "records.synthetic is off ... records.ids"},
	{"poison-limit=most", "records.poison-limit ... as in 90% of 100, or off"},
	{"sink=kinesis?aggregation=no", "records.sink: option aggregation ... auto, kpl or none"},
	{"sink=s3://Upper/x", "records.sink"},
	{"sink=s3://a..b/x", "records.sink: the name of a bucket has dots only between letters or digits"},
	{"sink=s3://lake/_x", "records.sink ... begins with"},
	{
		"sink=s3://lake/x; parallelization=2",
		"records.parallelization is 2, and must be 1 with objects in a bucket: an object says which records are done",
	},
	{"sink=s3://lake/x; acks=off", "records.acks is off, but objects say which records are done"},
	{"sink=s3://lake/x?aggregation=kpl", "records.sink: option aggregation is not a known setting (allowed: format, compression, object-size)"},
	{"sink=kinesis?compression=zstd", "records.sink: option compression is not a known setting"},
	{"sink=s3://lake/x?compression=lz4", "records.sink: option compression ... gzip, zstd or none"},
	{
		"sink=s3://lake/poison; dead-letter-bucket=lake",
		"records.dead-letter-bucket is inside of records.sink",
	},
	{"sink=kinesis?max-record=11MiB", "records.sink: option max-record "},
	{"scope=Orders", "records.scope ... 1 to 63"},
	{"scope=" + strings.Repeat("a", 64), "records.scope "},
	{"window=999ms", "records.window "},
	{"window=876001h", "records.window is longer than"},
	{"horizon=876001h", "records.horizon is longer than"},
	{"source-retention=24h; horizon=23h", "records.horizon "},
	{"ledger=keys?concurrency=1001", "records.ledger: option concurrency ... 1 to 1000"},

	// The log ledger.
	{"ledger=row", "records.ledger is not a known ledger (allowed: keys, log, valkey://HOST:PORT"},
	{"ledger=keys?memory=1GiB", "records.ledger: option memory is not a known setting (allowed: concurrency)"},
	{"expected-rate=1000", "records.expected-rate is set, but only records.ledger=log needs it; leave it out"},
	{"expected-rate=0", "records.expected-rate ... a whole number from 1"},
	{"ledger=log; window=1m; scope=A", "records.scope ... records.expected-rate is missing"},
	{"ledger=log", "records.expected-rate is missing: with records.ledger=log all entries that count are in memory"},
	{logOf33000 + "; window=0", "records.window is shorter than"}, // for ever
	{"ledger=log?lanes=257; expected-rate=33000", "records.ledger: option lanes ... 1 to 256"},
	{"ledger=log?lanes=0; expected-rate=33000", "records.ledger: option lanes"},
	{"ledger=log?concurrency=8; expected-rate=33000", "records.ledger: option concurrency is not a known setting (allowed: lanes, memory)"},
	{logOf33000 + "; batch-window=0", "records.batch-window is shorter than 1s"},
	{"ledger=log?memory=1MiB; expected-rate=33000", "records.ledger: option memory ... 16MiB or more"},
	{logOf33000 + "; records.memory=10241", "records.memory is 10241; choose 128 to 10240"},
	{
		"ledger=log?memory=3GiB; expected-rate=33000",
		"records.ledger has a memory above 80% of the memory of the function",
	},
	{
		logOf33000 + "; sink=dynamodb:their-items?key=id",
		"records.ledger is not keys, but with records.sink=dynamodb: an item is written in one transaction",
	},
	{
		logOf33000 + "; window=1h",
		"records.window is 1h: at 33000 records a second its entries need 3.8 GiB in memory, and there are 1.8 GiB for them " +
			"(records.memory is 3008); choose at least 6421, or a window of at most 28m",
	},
	{
		"ledger=log?memory=2GiB; expected-rate=33000; window=1h; records.memory=8192",
		"there are 2.0 GiB for them (records.memory is 8192); choose at least 6421 and leave the memory out of " +
			"records.ledger, or a window of at most 31m",
	},
	{
		logOf33000, // 2d is the default
		"records.window is 2d ... need 180.6 GiB in memory ... a function has at most 10240 MiB, in which a window of 1h35m " +
			"fits; choose at most that, or another ledger",
	},
	{
		"ledger=log?lanes=2; expected-rate=60000; window=1m",
		"records.ledger has 2 lanes: at 60000 records a second a lane takes 1050 write units a second or more, and DynamoDB " +
			"takes at most 1000; choose at least 3, as in log?lanes=16, in a scope that has no records yet",
	},

	// The Valkey ledger.
	{"ledger=valkey://cache:6379/0", "records.ledger does not name servers of Valkey"},
	{"ledger=valkey://cache", "records.ledger does not name servers of Valkey (allowed: valkey://HOST:PORT"},
	{"ledger=valkey://them:hunter2@cache:6379", "records.ledger has a user or a password ... without a user and a password"},
	{"ledger=valkey://them:hunter2@" + theirCache, "records.ledger has a user or a password"},
	{valkey + "?buckets=0", "records.ledger: option buckets"},
	{valkey + "?buckets=134217729", "records.ledger: option buckets ... 1 to 134217728"},
	{"ledger=keys?buckets=8", "records.ledger: option buckets is not a known setting (allowed: concurrency)"},
	{valkey + "?password=hunter2", "records.ledger: option password is not a known setting (allowed: buckets, previous"},
	{valkey + "?password-file=/etc/password", "records.ledger: option password-file: a function on Lambda has only the files of its code"},
	{valkey + "?lanes=8", "records.ledger: option lanes is not a known setting (allowed: buckets, previous"},
	{valkey + "; expected-rate=8", "records.expected-rate is set, but only records.ledger=log needs it; leave it out"},
	{valkey + "?previous=old:6379", "records.ledger: option since is missing"},
	{valkey + "?since=2027-03-01T09:00:00Z", "records.ledger: option previous is missing"},
	{
		valkey + "?previous=valkeys://old:6379&since=tomorrow",
		"records.ledger: option previous does not name servers of Valkey ... records.ledger: option since is not a time",
	},
	{valkey + "; sink=dynamodb:their-items?key=id", "records.ledger is not keys, but with records.sink=dynamodb"},
	{"ledger=keys?secret-arn=" + theirSecret, "records.ledger: option secret-arn is not a known setting (allowed: concurrency)"},
	{
		valkey + "?secret-arn=valkey/theirs",
		"records.ledger: option secret-arn is not the ARN of a secret ... arn:aws:secretsmanager:REGION:ACCOUNT:secret:NAME-XXXXXX",
	},
	{valkey + "?secret-arn=arn:aws:secretsmanager:eu-west-1:123456789012:secret:theirs", "records.ledger: option secret-arn"},
	{
		"ledger=valkeys://" + theirCache,
		"subnets is missing: " + theirCache + " is reached from its VPC only; set subnets and " +
			"security-groups",
	},
	{
		valkey + "?previous=theirs.memorydb.eu-west-1.amazonaws.com:6379&since=2027-03-01T09:00:00Z",
		"subnets is missing: theirs.memorydb.eu-west-1.amazonaws.com:6379 is reached from its VPC only",
	},
	{"subnets=subnet-0a1b2c3d", "subnets and security-groups belong together"},
	{"security-groups=sg-0a1b2c3d", "subnets and security-groups belong together"},
	{
		"subnets=private; security-groups=sg-0a1b2c3d",
		`subnets is "private"; write different ids with commas between, as in subnet-0a1b2c3d4e5f60718`,
	},
	{"subnets=subnet-0a1b2c3d; security-groups=sg-0a1b2c3d,sg-0a1b2c3d", "security-groups ... different ids"},

	// Everything at once.
	{
		jwt + "; jwt-issuer=http://x; jwt-audience=; parallelization=11; scope=A; horizon=100h; record-age=200h; " +
			"retries=10001",
		"claims.jwt-issuer ... claims.jwt-audience ... records.horizon is 100h ... records.parallelization is 11 ... " +
			"records.retries is 10001 ... records.record-age is 200h ... records.scope",
	},
	{
		"no-such=1; architecture=arm; natural=no; encryption-key=x; dead-letter-bucket=A; warm-read-units=1",
		"encryption-key ... architecture ... records.natural ... records.dead-letter-bucket ... no-such ... " +
			"warm-read-units is 1",
	},
}

// TestSettingsAreRefused checks that an error names the key that is wrong, and says what to do.
func TestSettingsAreRefused(t *testing.T) {
	for _, r := range refusals {
		t.Run(fmt.Sprintf("%.100s", r.settings), func(t *testing.T) { says(t, refused(t, values(r.settings)), r.says) })
	}
}

// notForUsers are names of Go and of functions, which users of the settings file do not know.
var notForUsers = regexp.MustCompile(
	`ONCEBOX_|Props|Auth(JWT|IAM|Link|Open)|JWT(I|A|S)|DomainName|NearlyEmpty|Source|Destination|Retention|Horizon|BatchSize|RecordAge|Retries|Queue|Bucket`)

// says checks that an error contains the parts in this order.
func says(t *testing.T, message, parts string) {
	t.Helper()
	rest := message
	for part := range strings.SplitSeq(parts, " ... ") {
		_, after, found := strings.Cut(rest, part)
		if !found {
			t.Errorf("it says\n%s\nand not %q", message, part)
			return
		}
		rest = after
	}
	if strings.Contains(message, "hunter2") {
		t.Errorf("it repeats a secret:\n%s", message)
	}
	if name := notForUsers.FindString(message); name != "" {
		t.Errorf("it names %s, which the user does not know:\n%s", name, message)
	}
}

// TestAdviceForTheLogIsTaken follows the advice in the refusals of the log ledger.
func TestAdviceForTheLogIsTaken(t *testing.T) {
	for _, context := range []string{
		logOf33000 + "; window=1h; records.memory=6421", logOf33000 + "; window=28m",
		"ledger=log?memory=2GiB; expected-rate=33000; window=31m; records.memory=8192",
		logOf33000 + "; window=1h35m; records.memory=10240",
		"ledger=log?lanes=3; expected-rate=60000; window=1m",
	} {
		if _, err := infra.NewStack(newApp(t, contextOf(t, values(context+"; claims=none")))); err != nil {
			t.Errorf("%s: %v", context, err)
		}
	}
}

// TestOneProblemIsToldOnce checks a problem that both jobs have, and one in a value that is read twice.
func TestOneProblemIsToldOnce(t *testing.T) {
	for key, value := range map[string]any{"log-level": "loud", "ledger": []any{"log"}} {
		if message := refused(t, map[string]any{key: value}); strings.Count(message, key) != 1 {
			t.Errorf("it says\n%s", message)
		}
	}
}

// TestHostileSettings checks that every value makes a template or an error, and that jsii does not panic.
func TestHostileSettings(t *testing.T) {
	testengine.CheckOnly(t)
	for _, name := range append(settingPaths(t), "claims", "records", "no-such") {
		for _, value := range []string{"\x00", strings.Repeat("x", 300)} {
			func() {
				defer func() {
					if p := recover(); p != nil {
						t.Errorf("%s: %.20q: panic: %v", name, value, p)
					}
				}()
				_, _ = trySynth(t, with(values(jwt), map[string]any{name: value}))
			}()
		}
	}
}

// TestFunctionsAreChecked checks that executables which Lambda could not start are refused.
func TestFunctionsAreChecked(t *testing.T) {
	text, none := t.TempDir(), t.TempDir()
	must(t, os.WriteFile(filepath.Join(text, "bootstrap"), []byte("#!/bin/sh\n"), 0o700))
	arm, x86 := standIn(t, elf.EM_AARCH64), standIn(t, elf.EM_X86_64)
	locked := t.TempDir()
	executable, err := os.ReadFile(filepath.Join(arm, "bootstrap"))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(locked, "bootstrap"), executable, 0o600))
	for _, code := range codeNames {
		for _, tc := range []struct{ architecture, folder, says string }{
			{"arm64", none, "there is no function at " + none + "/bootstrap; build it with `make zip`, or set oncebox:" + code},
			{"x86_64", none, "`make zip ARCH=amd64`"},
			{"arm64", text, "bootstrap is not a Linux executable; build it with `make zip`"},
			{"arm64", x86, "bootstrap is not built for arm64; build it with `make zip`, or choose the other architecture"},
			{"x86_64", arm, "bootstrap is not built for x86_64; build it with `make zip ARCH=amd64`"},
			{"arm64", locked, "bootstrap is not executable"},
		} {
			says(t, refused(t, values("architecture="+tc.architecture+"; "+code+"="+tc.folder)), tc.says)
		}
	}
}

// TestFunctionHasItsClients: for each sink and ledger the default is the smallest function that starts with it. The
// function without a client is refused where the settings need the client.
func TestFunctionHasItsClients(t *testing.T) {
	region := func(context.Context) (aws.Config, error) { return aws.Config{Region: "eu-west-1"}, nil }
	for _, setting := range []string{
		"sink=kinesis:theirs", "sink=firehose:theirs", "sink=sqs:https://sqs.eu-west-1.amazonaws.com/123456789012/theirs",
		"sink=s3://theirs", "sink=dynamodb:theirs?key=id", "ledger=keys", "ledger=log; expected-rate=1", valkey,
	} {
		name, value, _ := strings.Cut(strings.Split(setting, "; ")[0], "=")
		o, err := recordhandler.ParseOptions([]string{
			"ONCEBOX_ID_PATH=id", "ONCEBOX_SINK=kinesis:theirs", "ONCEBOX_DEAD_LETTERS=s3://letters",
			"AWS_LAMBDA_FUNCTION_MEMORY_SIZE=1024", "ONCEBOX_" + strings.ToUpper(name) + "=" + value,
		})
		must(t, err)
		_, err = recordhandler.OpenFunction(t.Context(), region, nil, "entries", o, slog.New(slog.DiscardHandler))
		folder := "dist/dedupe"
		if err != nil {
			folder = "dist/dedupe-full"
		}
		says(t, refused(t, values(setting+"; dedupe-code=")), "there is no function at "+folder+"/bootstrap")
	}

	built := t.TempDir()
	command(t, root, nil, "scripts/build-function", "./functions/dedupe", "arm64", filepath.Join(built, "bootstrap"))
	says(t, refused(t, values(valkey+"; dedupe-code="+built)), built+"/bootstrap is the function without the clients of "+
		"Firehose and Valkey ... set oncebox:dedupe-code to dist/dedupe-full or leave it out")
}

type (
	claimProps  = infra.ClaimAPIProps
	recordProps = infra.RecordDedupeProps
)

// wrongClaims and wrongRecords are props that a settings file cannot have, by the text of the error, which names
// props.
var (
	wrongClaims = map[string]func(awscdk.Stack, *claimProps){
		"Auth is missing; choose iam (callers have IAM permissions), jwt": func(_ awscdk.Stack, p *claimProps) {
			p.Auth = ""
		},
		"Auth=jwt needs JWTAudience without empty names": func(_ awscdk.Stack, p *claimProps) {
			p.Auth, p.JWTIssuer, p.JWTAudience = infra.AuthJWT, "https://issuer.example", []string{""}
		},
		"LinkKeys is wrong: key 2 is not base64": func(_ awscdk.Stack, p *claimProps) {
			p.Auth, p.Settings.LinkKeys = infra.AuthLink, linkKey+"\nx\n"
		},
		"ClaimantFrom=jwt:sub needs Auth=jwt: Auth=iam verifies no token": func(_ awscdk.Stack, p *claimProps) {
			p.Settings.ClaimantFrom = "jwt:sub"
		},
		"JWTScopes needs Auth=jwt, and Auth is iam": func(_ awscdk.Stack, p *claimProps) {
			p.JWTScopes = []string{"claims"}
		},
		"Settings.BankTable is set; set BankTable": func(_ awscdk.Stack, p *claimProps) { p.Settings.BankTable = "theirs" },
		"Settings.Caller is set; set Auth":         func(_ awscdk.Stack, p *claimProps) { p.Settings.Caller = "any" },
		"ChallengeSecret is set, but Challenge names nothing that has a secret; leave it out": func(stack awscdk.Stack, p *claimProps) {
			p.ChallengeSecret = awssecretsmanager.NewSecret(stack, jsii.String("Secret"), nil)
		},
		"Challenge has the option secret-arn, and ChallengeSecret is set; choose one": func(stack awscdk.Stack, p *claimProps) {
			p.Settings.Challenge = "turnstile?site-key=1x&secret-arn=" + theirSecret
			p.ChallengeSecret = awssecretsmanager.NewSecret(stack, jsii.String("Secret"), nil)
		},
		"ReservedConcurrency is 0, which stops the function; choose at least 1, or leave it out": func(_ awscdk.Stack, p *claimProps) {
			p.Function.ReservedConcurrency = new(0)
		},
		"Subnets and SecurityGroups belong together": func(stack awscdk.Stack, p *claimProps) {
			p.Function.Subnets = []awsec2.ISubnet{awsec2.Subnet_FromSubnetId(stack, jsii.String("Subnet"), jsii.String("subnet-1"))}
		},
		`RunbookURL is "wiki"; write the https address of a page`: func(_ awscdk.Stack, p *claimProps) {
			p.Alarms.RunbookURL = "wiki"
		},
		"ExecuteAPIEndpoint=off needs DomainName":      func(_ awscdk.Stack, p *claimProps) { p.ExecuteAPIEndpoint = "off" },
		`ExecuteAPIEndpoint is "no"; choose on or off`: func(_ awscdk.Stack, p *claimProps) { p.ExecuteAPIEndpoint = "no" },
		"DomainName needs Certificate": func(_ awscdk.Stack, p *claimProps) {
			p.DomainName = "claims.example.com"
		},
		"BankTable has replicas in other regions. A condition of a write is tested in one region": func(stack awscdk.Stack, p *claimProps) {
			p.BankTable = globalTable(stack)
		},
		"DedupeTable has replicas":               func(stack awscdk.Stack, p *claimProps) { p.DedupeTable = globalTable(stack) },
		"RateLimit is -1 and BurstLimit is 1000": func(_ awscdk.Stack, p *claimProps) { p.RateLimit = -1 },
		"RateLimit is 300, and other APIs with this table have 900: a route can take 3600 read and 4800 write": func(
			stack awscdk.Stack, p *claimProps,
		) {
			table, _ := infra.NewTable(stack, "Entries", infra.TableProps{})
			p.DedupeTable, p.RateLimit = table, 400
			_, _ = infra.NewClaimAPI(stack, "First", *p)
			p.RateLimit = 500
			_, _ = infra.NewClaimAPI(stack, "Second", *p)
			p.RateLimit = 300
		},
		"CampaignCache ":                     func(_ awscdk.Stack, p *claimProps) { p.Settings.CampaignCache = new(-time.Second) },
		"Memory is 127; choose 128 to 10240": func(_ awscdk.Stack, p *claimProps) { p.Function.Memory = 127 },
		"Timeout is 30s; choose whole seconds from 1s to 29s": func(_ awscdk.Stack, p *claimProps) {
			p.Function.Timeout = 30 * time.Second
		},
		"SweepEvery is 1s; choose whole minutes from 1m to 1d": func(_ awscdk.Stack, p *claimProps) {
			p.SweepEvery = time.Second
		},
		"Backup.Days is -1; choose 1 to 36500": func(_ awscdk.Stack, p *claimProps) {
			p.Backup = infra.BackupProps{Vault: theirVault, Days: -1}
		},
		"Backup.Bucket is \"a..b\"; the name of a bucket has 3 to 63": func(_ awscdk.Stack, p *claimProps) {
			p.Backup = infra.BackupProps{Vault: theirVault, Bucket: "a..b"}
		},
		"SweepFunction.Memory is 127": func(_ awscdk.Stack, p *claimProps) { p.SweepFunction.Memory = 127 },
		"SweepFunction.Timeout is 15m1s; choose whole seconds from 1s to 15m": func(_ awscdk.Stack, p *claimProps) {
			p.SweepFunction.Timeout = 901 * time.Second
		},
		"none/bootstrap; build it with `make zip`, or set SweepFunction.Code": func(_ awscdk.Stack, p *claimProps) {
			p.SweepFunction.Code = "none"
		},
		`LogRetention is "A_WHILE"`: func(_ awscdk.Stack, p *claimProps) { p.Function.LogRetention = "A_WHILE" },
		"DedupeTable is the table of BankTable": func(stack awscdk.Stack, p *claimProps) {
			p.BankTable = awsdynamodb.NewTableV2(stack, jsii.String("Table"), &awsdynamodb.TablePropsV2{
				PartitionKey: &awsdynamodb.Attribute{Name: jsii.String("pk"), Type: awsdynamodb.AttributeType_STRING},
			})
			p.DedupeTable = p.BankTable
		},
		"claim API Claims: DedupeTable is the table of BankTable": func(stack awscdk.Stack, p *claimProps) {
			p.BankTable = awsdynamodb.TableV2_FromTableName(stack, jsii.String("Bank"), jsii.String("theirs"))
			p.DedupeTable = awsdynamodb.TableV2_FromTableArn(stack, jsii.String("Dedupe"),
				jsii.String("arn:aws:dynamodb:eu-west-1:123456789012:table/theirs"))
		},
	}
	wrongRecords = map[string]func(awscdk.Stack, *recordProps){
		"Volatile has an empty value, or a value with a comma": func(_ awscdk.Stack, p *recordProps) {
			p.Settings.Volatile = []string{"meta,data"}
		},
		"Settings.DedupeTable is set; set DedupeTable": func(_ awscdk.Stack, p *recordProps) { p.Settings.DedupeTable = "theirs" },
		"Settings.DeadLetters is set; set DeadLetterBucket": func(_ awscdk.Stack, p *recordProps) {
			p.Settings.DeadLetters = "s3://theirs/poison"
		},
		"Sink and Settings.Sink are both set; choose one": func(_ awscdk.Stack, p *recordProps) {
			p.Sink, p.Settings.Sink = infra.ToFirehose("theirs"), "firehose:others"
		},
		"IDPath is missing":         func(_ awscdk.Stack, p *recordProps) { p.Settings.IDPath = "" },
		"DedupeTable has replicas":  func(stack awscdk.Stack, p *recordProps) { p.DedupeTable = globalTable(stack) },
		"ReservedConcurrency is -1": func(_ awscdk.Stack, p *recordProps) { p.Function.ReservedConcurrency = new(-1) },
		"Memory is 10241":           func(_ awscdk.Stack, p *recordProps) { p.Function.Memory = 10241 },
		"Timeout is 15m1s; choose whole seconds from 1s to 15m": func(_ awscdk.Stack, p *recordProps) {
			p.Function.Timeout = 901 * time.Second
		},
		"Timeout is 1.5s": func(_ awscdk.Stack, p *recordProps) { p.Function.Timeout = 1500 * time.Millisecond },
		"none/bootstrap; build it with `make zip`, or set Code": func(_ awscdk.Stack, p *recordProps) {
			p.Function.Code = "none"
		},
		"ExpectedRate is missing: with Ledger=log": func(_ awscdk.Stack, p *recordProps) {
			p.Settings.Ledger, p.ExpectedRate = "log", -1
		},
		"Window is 2d: at 200 records a second its entries need 1.1 GiB in memory, and there are 0.6 GiB for them (Memory is " +
			"1024); choose at least 1868": func(_ awscdk.Stack, p *recordProps) {
			p.Settings.Ledger, p.ExpectedRate, p.Function.Memory = "log", 200, 1024
		},
		"Ledger has a memory above 80% of the memory of the function (allowed": func(_ awscdk.Stack, p *recordProps) {
			p.Settings.Ledger = "log?memory=3GiB"
		},
		"Ledger has the option secret-arn, and LedgerSecret is set; choose one": func(stack awscdk.Stack, p *recordProps) {
			p.Settings.Ledger = "valkey://cache:6379?secret-arn=" + theirSecret
			p.LedgerSecret = awssecretsmanager.NewSecret(stack, jsii.String("Secret"), nil)
		},
		"LedgerSecret has no complete ARN; import it": func(stack awscdk.Stack, p *recordProps) {
			p.Settings.Ledger = "valkey://cache:6379"
			p.LedgerSecret = awssecretsmanager.Secret_FromSecretNameV2(stack, jsii.String("Secret"), jsii.String("theirs"))
		},
		"Subnets is missing: c.memorydb.eu-west-1.amazonaws.com:1 is": func(_ awscdk.Stack, p *recordProps) {
			p.Settings.Ledger = "valkey://c.memorydb.eu-west-1.amazonaws.com:1"
		},
		"WarmReadUnits is 0 and WarmWriteUnits is 4000": func(_ awscdk.Stack, p *recordProps) {
			p.Table.WarmWriteUnits = 4000
		},
		"Parallelization is 11; choose 1 to 10": func(_ awscdk.Stack, p *recordProps) { p.Mapping.Parallelization = 11 },
		"Synthetic is off, but with IDs=derived": func(_ awscdk.Stack, p *recordProps) {
			p.Settings.IDs, p.Settings.Synthetic = "derived", "off"
		},
		"PoisonLimit is not a share": func(_ awscdk.Stack, p *recordProps) { p.Settings.PoisonLimit = "most" },
		"Source is a consumer of a stream; choose the stream: with enhanced fan-out": func(stack awscdk.Stack, p *recordProps) {
			p.SourceRetention = 24 * time.Hour
			p.Source = infra.FromStream(
				awskinesis.Stream_FromStreamArn(stack, jsii.String("Theirs"), jsii.String(theirStream+"/consumer/fast:1")))
		},
		"SourceRetention is 1d, but Source keeps its records for 2d": func(stack awscdk.Stack, p *recordProps) {
			p.Source, p.SourceRetention = infra.FromStream(newStream(stack, 48)), 24*time.Hour
		},
		"Horizon is 14d, shorter than SourceRetention, which is 60d": func(stack awscdk.Stack, p *recordProps) {
			p.Source = infra.FromStream(newStream(stack, 1440))
		},
		"record dedup Records: NotifyQueue is a FIFO queue": func(stack awscdk.Stack, p *recordProps) {
			p.NotifyQueue = awssqs.NewQueue(stack, jsii.String("Queue"), &awssqs.QueueProps{Fifo: jsii.Bool(true)})
		},
		"Source and Sink are the same": func(stack awscdk.Stack, p *recordProps) {
			p.Source = infra.FromStream(newStream(stack, 24))
			p.Sink = infra.ToStream(p.Source.Stream(), "aggregation=kpl")
		},
		"Source and Sink are the same; every": func(stack awscdk.Stack, p *recordProps) { // the name of the ARN
			p.Source = infra.FromStream(awskinesis.Stream_FromStreamArn(stack, jsii.String("Theirs"), jsii.String(theirStream)))
			p.SourceRetention, p.Settings.Sink = 24*time.Hour, "kinesis:theirs"
		},
		"Source has a visibility timeout of 5m59s; with six times the timeout of the function and the batch window it needs": func(
			stack awscdk.Stack, p *recordProps,
		) {
			p.Source = infra.FromQueue(awssqs.NewQueue(stack, jsii.String("Work"), &awssqs.QueueProps{
				VisibilityTimeout: awscdk.Duration_Seconds(jsii.Number(359)),
			}))
		},
		"Source has no dead-letter queue": func(stack awscdk.Stack, p *recordProps) {
			p.Source = infra.FromQueue(awssqs.NewQueue(stack, jsii.String("Work"), nil))
		},
		"Source moves a message to its dead-letter queue after 4 receives, and each time that Lambda is throttled": func(
			stack awscdk.Stack, p *recordProps,
		) {
			p.Source = infra.FromQueue(awssqs.NewQueue(stack, jsii.String("Work"), &awssqs.QueueProps{
				VisibilityTimeout: awscdk.Duration_Minutes(jsii.Number(6)), DeadLetterQueue: &awssqs.DeadLetterQueue{
					MaxReceiveCount: jsii.Number(4), Queue: awssqs.NewQueue(stack, jsii.String("Letters"), nil),
				},
			}))
		},
		"Horizon is 14d, shorter than SourceRetention, which is 15d": func(stack awscdk.Stack, p *recordProps) {
			p.Source = infra.FromQueue(awssqs.NewQueue(stack, jsii.String("Work"), &awssqs.QueueProps{
				VisibilityTimeout: awscdk.Duration_Minutes(jsii.Number(6)), RetentionPeriod: awscdk.Duration_Days(jsii.Number(1)),
				DeadLetterQueue: &awssqs.DeadLetterQueue{
					MaxReceiveCount: jsii.Number(5), Queue: awssqs.NewQueue(stack, jsii.String("Letters"), &awssqs.QueueProps{
						RetentionPeriod: awscdk.Duration_Days(jsii.Number(14)),
					}),
				},
			}))
		},
		"Table.KinesisStream is set, and each entry of a record": func(stack awscdk.Stack, p *recordProps) {
			p.Table.KinesisStream = newStream(stack, 24)
		},
		"Source is a table without a stream": func(stack awscdk.Stack, p *recordProps) {
			p.Source = infra.FromTable(awsdynamodb.TableV2_FromTableName(stack, jsii.String("Items"), jsii.String("theirs")))
		},
		"Source has a resource that is nil; pass":     func(_ awscdk.Stack, p *recordProps) { p.Source = infra.FromTable(nil) },
		"Source has a resource that is nil; pass the": func(_ awscdk.Stack, p *recordProps) { p.Source = infra.FromLogGroup(nil) },
		"Source has a resource that is nil":           func(_ awscdk.Stack, p *recordProps) { p.Source = infra.FromQueue(nil) },
		"Sink has a resource that is nil":             func(_ awscdk.Stack, p *recordProps) { p.Sink = infra.ToStream(nil) },
		"LedgerSecret is set, but Ledger names nothing that has a secret; leave it out": func(stack awscdk.Stack, p *recordProps) {
			p.LedgerSecret = awssecretsmanager.NewSecret(stack, jsii.String("Secret"), nil)
		},
		"Sink: the prefix of objects and the name of a Firehose stream have neither": func(stack awscdk.Stack, p *recordProps) {
			p.Sink = infra.ToBucket(awss3.NewBucket(stack, jsii.String("Lake"), nil), "a?compression=zstd")
		},
		"Sink is in another account or region than the stack": func(stack awscdk.Stack, p *recordProps) {
			p.Sink = infra.ToStream(awskinesis.Stream_FromStreamArn(stack, jsii.String("Theirs"),
				jsii.String("arn:aws:kinesis:us-west-2:123456789012:stream/x")))
		},
		"Sink: option compression is not a known choice (allowed: gzip, zstd or none)": func(stack awscdk.Stack, p *recordProps) {
			p.Sink = infra.ToBucket(awss3.NewBucket(stack, jsii.String("Lake"), nil), "events", "compression=lz4")
		},
	}
)

// globalTable returns a table in two regions.
func globalTable(stack awscdk.Stack) awsdynamodb.TableV2 {
	return awsdynamodb.NewTableV2(stack, jsii.String("Table"), &awsdynamodb.TablePropsV2{
		PartitionKey: &awsdynamodb.Attribute{Name: jsii.String("pk"), Type: awsdynamodb.AttributeType_STRING},
		Replicas:     &[]*awsdynamodb.ReplicaTableProps{{Region: jsii.String("eu-central-1")}},
	})
}

// TestLaterReplicasAreRefused adds a replica to the table of a construct that was made.
func TestLaterReplicasAreRefused(t *testing.T) {
	app := newApp(t, nil)
	stack := theirStack(app)
	table, err := infra.NewTable(stack, "Entries", infra.TableProps{})
	must(t, err)
	_, err = infra.NewRecordDedupe(stack, "Records", recordProps{
		Settings: recordhandler.Settings{IDPath: "id"}, Function: functionProps(t), DedupeTable: table,
	})
	must(t, err)
	table.AddReplica(&awsdynamodb.ReplicaTableProps{Region: jsii.String("eu-central-1")})
	problem := synthProblem(app)
	if !strings.Contains(problem, "the table theirs/Entries has replicas in other regions") {
		t.Errorf("got %s", problem)
	}
}

// synthProblem returns the text of the CDK's panic when it makes the templates.
func synthProblem(app awscdk.App) (problem string) {
	defer func() {
		if p := recover(); p != nil {
			problem = fmt.Sprint(p)
		}
	}()
	app.Synth(nil)
	return ""
}

// TestConsumerOfAStreamIsRefused changes the mapping to enhanced fan-out.
func TestConsumerOfAStreamIsRefused(t *testing.T) {
	for _, aggregation := range []string{"", "on", "off"} {
		unaggregated := aggregation == "off"
		app := newApp(t, nil)
		stack := awscdk.NewStack(app, jsii.String("theirs"), nil)
		records, err := infra.NewRecordDedupe(stack, "Records", recordProps{
			Settings: recordhandler.Settings{IDPath: "id", SourceAggregation: aggregation}, Function: functionProps(t),
		})
		must(t, err)
		records.Mapping.SetEventSourceArn(jsii.String(theirStream + "/consumer/fast:1"))
		problem := synthProblem(app)
		const says = "EventSourceArn is not the stream of Source; with enhanced fan-out"
		if unaggregated != (problem == "") || !unaggregated && !strings.Contains(problem, says) {
			t.Errorf("source aggregation %q: got %q", aggregation, problem)
		}
	}
}

func newStream(stack awscdk.Stack, hours int) awskinesis.Stream {
	return awskinesis.NewStream(stack, jsii.String("Orders"), &awskinesis.StreamProps{
		RetentionPeriod: awscdk.Duration_Hours(jsii.Number(hours)),
	})
}

// TestRatesThatFit: the tables are just large enough, or are not of the stack.
func TestRatesThatFit(t *testing.T) {
	for _, fits := range []string{
		"rate-limit=1000", "rate-limit=5000; warm-read-units=15000; warm-write-units=20000",
		"rate-limit=5000; bank-table=theirs; dedupe-table=their-entries",
	} {
		if _, err := infra.NewStack(newApp(t, contextOf(t, values("records=none; "+fits)))); err != nil {
			t.Errorf("%s: %v", fits, err)
		}
	}
}

func TestPropsAreRefused(t *testing.T) {
	check := func(want string, add func(awscdk.Stack) error) {
		stack := theirStack(newApp(t, nil))
		text := fmt.Sprint(add(stack))
		if !strings.Contains(text, want) || strings.Contains(text, "oncebox:") {
			t.Errorf("got %s, want %s", text, want)
		}
		for _, id := range []string{"Claims", "Records"} {
			if stack.Node().TryFindChild(jsii.String(id)) != nil {
				t.Errorf("%s: %s was made all the same", want, id)
			}
		}
	}
	for want, change := range wrongClaims {
		check(want, func(stack awscdk.Stack) error {
			p := claimProps{Auth: infra.AuthIAM, Function: functionProps(t), SweepFunction: sweepProps(t)}
			change(stack, &p)
			_, err := infra.NewClaimAPI(stack, "Claims", p)
			return err
		})
	}
	for want, change := range wrongRecords {
		check(want, func(stack awscdk.Stack) error {
			p := recordProps{Settings: recordhandler.Settings{IDPath: "id"}, Function: functionProps(t)}
			change(stack, &p)
			_, err := infra.NewRecordDedupe(stack, "Records", p)
			return err
		})
	}
	noRegion := awscdk.NewStack(newApp(t, nil), jsii.String("theirs"), nil)
	_, err := infra.NewTable(noRegion, "Table", infra.TableProps{EncryptionKey: awskms.NewKey(noRegion, jsii.String("Key"), nil)})
	if want := "EncryptionKey of a table needs a stack with a region"; !strings.Contains(fmt.Sprint(err), want) {
		t.Errorf("got %v, want %s", err, want)
	}
	check("table Table: WarmReadUnits is 1", func(stack awscdk.Stack) error {
		_, err := infra.NewTable(stack, "Table", infra.TableProps{WarmReadUnits: 1})
		return err
	})
}

// TestSplitQueueIsRefused checks two constructs that read one queue: each gets some of the messages.
func TestSplitQueueIsRefused(t *testing.T) {
	const refusal = "theirs/First reads the same queue with another DedupeTable or Scope"
	stack := awscdk.NewStack(newApp(t, nil), jsii.String("theirs"), nil)
	table, err := infra.NewTable(stack, "Table", infra.TableProps{})
	must(t, err)
	common := recordProps{
		Settings: recordhandler.Settings{IDPath: "id"}, Function: functionProps(t), SourceRetention: 14 * 24 * time.Hour,
		Source:      infra.FromQueue(awssqs.Queue_FromQueueArn(stack, jsii.String("Queue"), jsii.String(theirQueue))),
		DedupeTable: table,
	}
	_, err = infra.NewRecordDedupe(stack, "First", common)
	must(t, err)
	for name, second := range map[string]struct {
		change  func(p *recordProps)
		refused bool
	}{
		"with the same entries": {func(*recordProps) {}, false},
		"with another scope":    {func(p *recordProps) { p.Settings.Scope = "audit" }, true},
		"with another table":    {func(p *recordProps) { p.DedupeTable = nil }, true},
		"of another queue": {func(p *recordProps) {
			p.Source, p.DedupeTable = infra.FromQueue(awssqs.Queue_FromQueueArn(stack, jsii.String("Other"), jsii.String(theirQueue+"-2"))), nil
		}, false},
	} {
		p := common
		second.change(&p)
		_, err := infra.NewRecordDedupe(stack, name, p)
		if second.refused != (err != nil && strings.Contains(err.Error(), refusal)) || !second.refused && err != nil {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestSecondConsumerIsRefused checks two constructs with the same entries of the same stream: each would take the
// records of the other for its own retries.
func TestSecondConsumerIsRefused(t *testing.T) {
	const refusal = "theirs/First reads the same Source with the same DedupeTable and Scope, so both would deliver every"
	sources := map[string]func(awscdk.Stack, *recordProps){
		"made by the first": func(awscdk.Stack, *recordProps) {},
		"made before": func(stack awscdk.Stack, p *recordProps) {
			table, err := infra.NewTable(stack, "Table", infra.TableProps{})
			must(t, err)
			p.Source, p.DedupeTable = infra.FromStream(newStream(stack, 24)), table
		},
		"imported": func(stack awscdk.Stack, p *recordProps) {
			p.Source = infra.FromStream(awskinesis.Stream_FromStreamArn(stack, jsii.String("Theirs"), jsii.String(theirStream)))
			p.DedupeTable = awsdynamodb.TableV2_FromTableName(stack, jsii.String("Table"), jsii.String("theirs"))
		},
	}
	seconds := map[string]struct {
		change  func(first *infra.RecordDedupe, p *recordProps)
		refused bool
	}{
		"of the same":        {func(*infra.RecordDedupe, *recordProps) {}, true},
		"with another scope": {func(_ *infra.RecordDedupe, p *recordProps) { p.Settings.Scope = "audit" }, false},
		"with another table": {func(_ *infra.RecordDedupe, p *recordProps) { p.DedupeTable = nil }, false},
		"of another stream": {func(first *infra.RecordDedupe, p *recordProps) {
			p.Source, p.Sink = infra.FromStream(first.Destination), infra.Sink{}
		}, false},
		"with the scope that is the default": {func(first *infra.RecordDedupe, p *recordProps) {
			p.Settings.Scope = *first.Source.Stream().StreamName()
		}, true},
	}
	for where, source := range sources {
		stack := awscdk.NewStack(newApp(t, nil), jsii.String("theirs"), nil)
		common := recordProps{Settings: recordhandler.Settings{IDPath: "id"}, Function: functionProps(t), SourceRetention: 24 * time.Hour}
		source(stack, &common)
		first, err := infra.NewRecordDedupe(stack, "First", common)
		must(t, err)
		for name, second := range seconds {
			p := common
			p.Source, p.DedupeTable = first.Source, first.DedupeTable
			second.change(first, &p)
			_, err = infra.NewRecordDedupe(stack, name, p)
			if second.refused != (err != nil && strings.Contains(err.Error(), refusal)) || !second.refused && err != nil {
				t.Errorf("%s, %s: got %v", name, where, err)
			}
		}
	}
}
