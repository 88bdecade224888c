package kinesishandler

import (
	"cmp"
	"context"
	"crypto/tls"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/oncebox/oncebox/pkg/dedupe/valkeystore"
)

const (
	bucketsOfPrevious = "?buckets="
	previousForm      = valkeyForm + ", and " + bucketsOfPrevious + "N behind it if the number was another one"
	mostBuckets       = 1 << 27 // for 13 billion keys in a slice
)

// valkey reads the settings of the Valkey ledger.
func (p parser) valkey() *valkeystore.Options {
	servers, secure := p.servers(varLedger, p.Text(varLedger), valkeyForm)
	servers.Buckets = p.Number(varLedgerBuckets, valkeystore.DefaultBuckets, 1, mostBuckets)
	o := &valkeystore.Options{Servers: servers}
	if secure {
		o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if file := p.Text(varLedgerPassword); file != "" {
		o.Credentials = valkeystore.FromFile(file)
	}
	if p.Text(varLedgerPrevious) == "" && p.Text(varLedgerSince) == "" {
		return o
	}
	o.Previous, o.Since = p.previousServers(servers.Buckets, secure), p.since()
	return o
}

// secret reads the ARN of the secret with the password.
func (p parser) secret() string {
	arn := p.Text(varLedgerSecret)
	if arn != "" && regionOfSecret(arn) == "" {
		p.Wrong(varLedgerSecret, "is not the ARN of a secret of AWS Secrets Manager", secretForm)
	}
	if arn != "" && p.Text(varLedgerPassword) != "" {
		p.Wrong(varLedgerSecret, "is set, and so is "+varLedgerPassword, "one of them")
	}
	return arn
}

// OpenValkey opens the Valkey ledger that the options name. load is as for Open. OpenValkey sends no request.
func OpenValkey(
	ctx context.Context, load func(context.Context) (aws.Config, error), o Options,
) (*valkeystore.Ledger, error) {
	servers := *o.Ledger.Valkey
	if arn := o.Ledger.Secret; arn != "" {
		secret, err := openSecret(ctx, load, arn, o.Clock)
		if err != nil {
			return nil, err
		}
		servers.Credentials = secret.read
	}
	return valkeystore.Open(servers)
}

func (p parser) servers(name, text, form string) (servers valkeystore.Servers, secure bool) {
	addresses, secure, err := valkeystore.ParseServers(text)
	if err != nil { // the error repeats addresses, so it is not reported
		p.Wrong(name, "does not name servers of Valkey", form)
	}
	return valkeystore.Servers{Addresses: addresses}, secure
}

// previousServers reads the servers before a change. Their number of buckets is the present one, unless it is given.
func (p parser) previousServers(buckets int, secure bool) *valkeystore.Servers {
	text, of, _ := strings.Cut(p.Required(varLedgerPrevious, previousForm), bucketsOfPrevious)
	if text == "" {
		return &valkeystore.Servers{}
	}
	servers, previousSecure := p.servers(varLedgerPrevious, text, previousForm)
	if previousSecure != secure {
		p.Wrong(varLedgerPrevious, "is with TLS and "+varLedger+" without, or the other way round", "the same for both")
	}
	n, err := strconv.Atoi(cmp.Or(of, strconv.Itoa(buckets)))
	if err != nil || n < 1 || n > mostBuckets {
		p.Wrong(varLedgerPrevious, "has a wrong number of buckets", "1 to 134217728")
	}
	servers.Buckets = n
	return &servers
}

// since reads the arrival from which on the present servers are used.
func (p parser) since() time.Time {
	const form = "a time with its zone, as in 2027-03-01T09:00:00Z"
	since, err := time.Parse(time.RFC3339, p.Required(varLedgerSince, form))
	if p.Text(varLedgerSince) != "" && (err != nil || since.Unix() <= 0) {
		p.Wrong(varLedgerSince, "is not a time", form)
	}
	return since
}
