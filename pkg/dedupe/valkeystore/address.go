package valkeystore

import (
	"crypto/tls"
	"strings"
	"time"

	"github.com/oncebox/oncebox/internal/aws/arn"
	"github.com/oncebox/oncebox/internal/shared/address"
)

// mostBuckets suits 13 billion keys in a slice.
const mostBuckets = 1 << 27

const (
	addressForm = "valkey://HOST:PORT[,HOST:PORT...], or valkeys:// for TLS, with 1 to 64 different servers, and without a " +
		"user and a password"
	previousForm = "the servers before the change, as HOST:PORT[,HOST:PORT...]"
	sinceForm    = "a time with its zone, as in 2027-03-01T09:00:00Z"
)

// The options of an address.
const (
	optionBuckets         = "buckets"
	optionPrevious        = "previous"
	optionPreviousBuckets = "previous-buckets"
	optionSince           = "since"
	optionPasswordFile    = "password-file"
	optionSecretARN       = "secret-arn"
)

// Parse reads the address of a ledger, valkey://HOST:PORT[,HOST:PORT...], or valkeys:// for TLS. These options may stand
// behind it, as in ?buckets=864000&password-file=/etc/valkey:
//
//	buckets           hashes for the keys of a slice, 1 to 2^27; default 65536
//	previous          the servers before a change, HOST:PORT[,HOST:PORT...], with TLS if the new ones have it
//	previous-buckets  the buckets before a change; default those of now
//	since             the arrival from which on the new servers are used (RFC 3339); required with previous
//	password-file     a file for FromFile
//	secret-arn        the ARN of a secret of AWS Secrets Manager with what such a file has
//
// This package reads no secret of AWS. It returns its ARN, and the caller sets Options.Credentials. The error is a list
// of all problems. It repeats no value.
func Parse(text string) (o Options, secretARN string, err error) {
	if hasUser(text) {
		a := address.Parse("") // a password may have any character, so no part of the text is repeated
		a.WrongPlace("has a user or a password", addressForm)
		return o, "", a.Done()
	}
	a := address.Parse(text)
	if a.Scheme == "valkeys" {
		o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	} else if a.Scheme != "valkey" {
		a.WrongPlace("does not name servers of Valkey", addressForm)
	}
	hosts, ok := strings.CutPrefix(a.Name, "//")
	if o.Addresses = servers(strings.TrimSuffix(hosts, "/")); !ok || o.check() != nil {
		a.WrongPlace("does not name servers of Valkey", addressForm)
	}
	o.Buckets = a.Number(optionBuckets, DefaultBuckets, 1, mostBuckets)
	if file := a.Text(optionPasswordFile); file != "" {
		o.Credentials = FromFile(file)
	}
	o.Previous, o.Since = readChange(a, o.Buckets)
	secretARN = a.Text(optionSecretARN)
	if _, ok := arn.Secret(secretARN); secretARN != "" && !ok {
		a.Wrong(optionSecretARN, "is not the ARN of a secret of AWS Secrets Manager", arn.SecretForm)
	}
	if secretARN != "" && o.Credentials != nil {
		a.Wrong(optionSecretARN, "is given, and so is "+optionPasswordFile, "one of them")
	}
	err = a.Done(optionBuckets, optionPrevious, optionPreviousBuckets, optionSince, optionPasswordFile, optionSecretARN)
	if err != nil {
		return Options{}, "", err // what was given for a server may be a password
	}
	return o, secretARN, nil
}

// hasUser reports whether an address has a user or a password, as in valkey://USER:PASSWORD@HOST. The name of a file or a
// secret may have an @.
func hasUser(text string) bool {
	before, _, has := strings.Cut(text, "@")
	return has && !strings.Contains(before, optionSecretARN+"=") && !strings.Contains(before, optionPasswordFile+"=")
}

// readChange reads the servers before a change, and its time.
func readChange(a address.Address, buckets int) (previous *Servers, since time.Time) {
	before, at := a.Text(optionPrevious), a.Text(optionSince)
	if n := a.Number(optionPreviousBuckets, buckets, 1, mostBuckets); before != "" {
		previous = &Servers{servers(before), n}
	} else if a.Text(optionPreviousBuckets) != "" || at != "" {
		a.Wrong(optionPrevious, "is missing", previousForm)
	}
	if previous != nil && previous.check() != nil {
		a.Wrong(optionPrevious, "does not name servers of Valkey", previousForm)
	}
	if at == "" {
		if previous != nil {
			a.Wrong(optionSince, "is missing", sinceForm)
		}
		return previous, since
	}
	since, err := time.Parse(time.RFC3339, at)
	if err != nil || since.Unix() <= 0 {
		a.Wrong(optionSince, "is not a time", sinceForm)
	}
	return previous, since
}

func servers(text string) []string { return strings.Split(text, ",") }
