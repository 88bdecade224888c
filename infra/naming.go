package infra

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"time"

	"github.com/oncebox/oncebox/internal/settings"
)

// A naming maps props to the names that the user knows. Errors of [NewStack] name context values. Errors of the
// constructs name props: their naming is nil.
type naming map[string]string

// contextNaming holds the context values of props, and of the choices of an [Auth].
var contextNaming = naming{
	"AuthIAM": "oncebox:auth=iam", "AuthJWT": "oncebox:auth=jwt", "AuthLink": "oncebox:auth=link",
	"AuthOpen":  "oncebox:auth=open",
	"an issuer": "oncebox:jwt-issuer", "an audience": "oncebox:jwt-audience", "LinkKeys": "oncebox:link-keys",
	"ClaimantFrom": "oncebox:claimant-from", "ClaimantsConfirm": "oncebox:claimants-confirm", "CampaignCache": "oncebox:campaign-cache",
	"Challenge.Provider": "oncebox:challenge", "Challenge.SiteKey": "oncebox:challenge-site-key",
	"Challenge.Secret": "oncebox:challenge-secret-arn", "Challenge.URL": "oncebox:challenge-url",
	"Challenge.Hosts": "oncebox:challenge-hosts",
	"Page":            "oncebox:page", "CORSOrigins": "oncebox:cors-origins",
	"BankTable": "oncebox:bank-table", "DedupeTable": "oncebox:dedupe-table",
	"WarmReadUnits": "oncebox:warm-read-units", "WarmWriteUnits": "oncebox:warm-write-units",

	"Sweep.Every": "oncebox:sweep-every", "Sweep.Off": "oncebox:sweep", "Sweep.NearlyEmpty": "oncebox:nearly-empty",
	"RunbookURL": "oncebox:runbook-base-url", "scopes": "oncebox:jwt-scopes",
	"Domain.Name": "oncebox:domain-name", "Domain.Certificate": "oncebox:certificate-arn",
	"DisableExecuteAPIEndpoint": "oncebox:execute-api-endpoint=off", "Canary": "oncebox:canary",
	"LogLevel": "oncebox:log-level", "SystemLogLevel": "oncebox:system-log-level",
	"NoMetrics": "oncebox:metrics", "EndpointURL": "oncebox:endpoint-url",

	"Format": "oncebox:format",
	"IDPath": "oncebox:id-path", "FingerprintPath": "oncebox:fingerprint-path", "Volatile": "oncebox:volatile",
	"ContextsPath": "oncebox:contexts-path", "IDs": "oncebox:ids", "Scope": "oncebox:scope",
	"Ledger":  "oncebox:ledger",
	"Subnets": "oncebox:subnet-ids", "SecurityGroups": "oncebox:security-group-ids",
	"ExpectedRate": "oncebox:expected-rate", "MemoryMiB": "oncebox:dedupe-memory",
	"Window": "oncebox:window", "Horizon": "oncebox:horizon",
	"PoisonLimit": "oncebox:poison-limit",
	"RawID":       "oncebox:raw-id", "SourceRecords": "oncebox:source-records",
	"ONCEBOX_NATURAL": "oncebox:natural", "ONCEBOX_SYNTHETIC": "oncebox:synthetic", // the props say the opposite

	"Source": "oncebox:source-stream-arn", "SourceRetention": "oncebox:source-retention",
	"ONCEBOX_ACKS": "oncebox:acks", // the prop says the opposite

	"Sink":             "oncebox:sink",
	"DeadLetterBucket": "oncebox:dead-letter-bucket",
	"NotifyQueue":      "oncebox:notify-queue-arn",

	"BatchSize": "oncebox:batch-size", "BatchWindow": "oncebox:batch-window", "Parallelization": "oncebox:parallelization",
	"Retries": "oncebox:retries", "RecordAge": "oncebox:record-age",
}

// withFunction returns the naming with the context values that differ for each function.
func (n naming) withFunction(name string) naming {
	all := maps.Clone(n)
	all["Code"] = contextPrefix + name + "-code"
	all["ReservedConcurrency"] = contextPrefix + name + "-reserved-concurrency"
	return all
}

// of returns the name of a prop that the user knows.
func (n naming) of(prop string) string { return cmp.Or(n[prop], prop) }

// failed returns an error of a construct. Users of context values do not know the constructs.
func (n naming) failed(construct, id string, err error) error {
	if n != nil {
		return err
	}
	return fmt.Errorf("%s %s: %w", construct, id, err)
}

// memoryVariable holds the memory of a function in MiB. Lambda sets it.
const memoryVariable = "AWS_LAMBDA_FUNCTION_MEMORY_SIZE"

var variable = regexp.MustCompile(`\bONCEBOX_[A-Z_]+|` + memoryVariable)

// variableProps are the props of variables whose names differ from the props' names.
var variableProps = map[string]string{
	"ONCEBOX_DEAD_LETTERS": "DeadLetterBucket",
	memoryVariable:         "MemoryMiB",
}

// functionError returns an error of a function's parser with the user's names for the variables.
func (n naming) functionError(err error) error {
	named := func(variable string) string {
		if own := n[variable]; own != "" {
			return own
		}
		prop := variableProps[variable]
		context := contextPrefix + strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(variable, "ONCEBOX_")), "_", "-")
		for p, name := range contextNaming {
			if name == context {
				prop = p
			}
		}
		return n.of(cmp.Or(prop, variable))
	}
	wrong, ok := errors.AsType[*settings.Error](err)
	if !ok {
		return err
	}
	var all []error
	for _, problem := range wrong.Problems {
		all = append(all, errors.New(variable.ReplaceAllStringFunc(problem.String(), named)))
	}
	return errors.Join(all...)
}

// problems collects the problems in props.
type problems struct {
	naming
	all []error
}

func (p *problems) add(format string, args ...any) {
	p.all = append(p.all, fmt.Errorf(format, args...))
}

// join adds the problems in a part of the props. Nil adds nothing.
func (p *problems) join(errs ...error) { p.all = append(p.all, errs...) }

func (p *problems) err() error { return errors.Join(p.all...) }

// text writes a duration as the user may write it.
func text(d time.Duration) string { return settings.FormatDuration(d) }
