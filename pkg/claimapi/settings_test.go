package claimapi_test

import (
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/shared/settings"
	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/claimlink"
)

// required are the variables without which the function does not start.
var required = []string{"ONCEBOX_BANK_TABLE=bank", "ONCEBOX_DEDUPE_TABLE=dedupe", "ONCEBOX_CLAIMANT_FROM=jwt:sub"}

func with(more ...string) []string {
	return append(append([]string{"PATH=/bin", "ONCE=1"}, required...), more...)
}

func TestSettingsDefaults(t *testing.T) {
	t.Parallel()
	words, s, err := claimapi.ParseSettings(with("ONCEBOX_LOG_LEVEL=", "ONCEBOX_OTHER="))
	must(t, err)
	equal(t, "bank table", words.BankTable, "bank")
	equal(t, "dedupe table", words.DedupeTable, "dedupe")
	equal(t, "claimant from", s.ClaimantFrom.String(), "jwt:sub")
	equal(t, "campaign cache", s.CampaignCache, 5*time.Second)
	equal(t, "claimants confirm", s.ClaimantsConfirm, false)
	equal(t, "log level", s.LogLevel, slog.LevelInfo)
	equal(t, "metrics", s.Metrics, "")
}

func TestSettingsGiven(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{"0": 0, "0s": 0, "1.5s": 1500 * time.Millisecond} {
		_, s, err := claimapi.ParseSettings(with("ONCEBOX_CAMPAIGN_CACHE=" + text))
		must(t, err)
		equal(t, "campaign cache", s.CampaignCache, want)
	}
	for _, text := range []string{"jwt:sub", "jwt:https://x.org/id", "iam", "iam:session", "iam:role"} {
		_, s, err := claimapi.ParseSettings(with("ONCEBOX_CLAIMANT_FROM=" + text))
		must(t, err)
		equal(t, "claimant from", s.ClaimantFrom.String(), text)
	}
	for text, want := range map[string]bool{"iam": false, "any": true} {
		_, s, err := claimapi.ParseSettings(with("ONCEBOX_CLAIMANT_FROM=body", "ONCEBOX_CALLER="+text))
		must(t, err)
		equal(t, "claimant from", s.ClaimantFrom.String(), "body")
		equal(t, "any caller", s.AnyCaller, want)
	}
	for _, text := range []string{testLinkKey, testLinkKey + ", " + testLinkKey + "\n"} {
		_, s, err := claimapi.ParseSettings(with("ONCEBOX_CLAIMANT_FROM=link", "ONCEBOX_LINK_KEYS="+text))
		must(t, err)
		equal(t, "claimant from", s.ClaimantFrom.String(), "link")
		keys, err := claimlink.ParseKeys(testLinkKey)
		must(t, err)
		if !reflect.DeepEqual(s.LinkKeys, keys) {
			t.Errorf("link keys %v", s.LinkKeys)
		}
	}
	for text, want := range map[string]bool{"on": true, "off": false} {
		_, s, err := claimapi.ParseSettings(with("ONCEBOX_CLAIMANTS_CONFIRM=" + text))
		must(t, err)
		equal(t, "claimants confirm", s.ClaimantsConfirm, want)
	}
	_, s, err := claimapi.ParseSettings(with("ONCEBOX_METRICS=on", "AWS_LAMBDA_FUNCTION_NAME=claims"))
	must(t, err)
	equal(t, "metrics", s.Metrics, "oncebox/claims")
	for text, want := range map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn,
		"error": slog.LevelError} {
		_, s, err := claimapi.ParseSettings(with("ONCEBOX_LOG_LEVEL=" + text))
		must(t, err)
		equal(t, "log level", s.LogLevel, want)
	}
}

// testLinkKey is a public key of links.
const testLinkKey = "MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="

func TestSettingsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		environ []string
		names   string // of the wrong variables, in the order of the message
	}{
		"nothing set":        {nil, "ONCEBOX_BANK_TABLE ONCEBOX_DEDUPE_TABLE ONCEBOX_CLAIMANT_FROM"},
		"all empty":          {[]string{"ONCEBOX_BANK_TABLE=", "ONCEBOX_DEDUPE_TABLE=", "ONCEBOX_CLAIMANT_FROM="}, "ONCEBOX_BANK_TABLE ONCEBOX_DEDUPE_TABLE ONCEBOX_CLAIMANT_FROM"},
		"table missing":      {append(required[1:], "ONCEBOX_TABLE=bank"), "ONCEBOX_TABLE ONCEBOX_BANK_TABLE"},
		"unknown":            {with("ONCEBOX_STORE=dynamodb:", "ONCEBOX_CACHE=1s"), "ONCEBOX_CACHE ONCEBOX_STORE"},
		"bad table":          {with("ONCEBOX_BANK_TABLE=hunter2 "), "ONCEBOX_BANK_TABLE"},
		"short table":        {with("ONCEBOX_BANK_TABLE=ab"), "ONCEBOX_BANK_TABLE"},
		"long table":         {with("ONCEBOX_DEDUPE_TABLE=" + strings.Repeat("a", 256)), "ONCEBOX_DEDUPE_TABLE"},
		"one table":          {with("ONCEBOX_DEDUPE_TABLE=bank"), "ONCEBOX_DEDUPE_TABLE"},
		"jwt without claim":  {with("ONCEBOX_CLAIMANT_FROM=jwt:"), "ONCEBOX_CLAIMANT_FROM"},
		"jwt with a space":   {with("ONCEBOX_CLAIMANT_FROM=jwt:sub "), "ONCEBOX_CLAIMANT_FROM"},
		"jwt alone":          {with("ONCEBOX_CLAIMANT_FROM=jwt"), "ONCEBOX_CLAIMANT_FROM"},
		"iam with more":      {with("ONCEBOX_CLAIMANT_FROM=iam:hunter2"), "ONCEBOX_CLAIMANT_FROM"},
		"iam with nothing":   {with("ONCEBOX_CLAIMANT_FROM=iam:"), "ONCEBOX_CLAIMANT_FROM"},
		"body with a part":   {with("ONCEBOX_CLAIMANT_FROM=body:session"), "ONCEBOX_CLAIMANT_FROM"},
		"body with a colon":  {with("ONCEBOX_CLAIMANT_FROM=body:"), "ONCEBOX_CLAIMANT_FROM"},
		"body, no caller":    {with("ONCEBOX_CLAIMANT_FROM=body"), "ONCEBOX_CALLER"},
		"other caller":       {with("ONCEBOX_CLAIMANT_FROM=body", "ONCEBOX_CALLER=all"), "ONCEBOX_CALLER"},
		"caller without use": {with("ONCEBOX_CALLER=iam"), "ONCEBOX_CALLER"},
		"confirm":            {with("ONCEBOX_CLAIMANTS_CONFIRM=yes"), "ONCEBOX_CLAIMANTS_CONFIRM"},
		"link without keys":  {with("ONCEBOX_CLAIMANT_FROM=link"), "ONCEBOX_LINK_KEYS"},
		"keys without link":  {with("ONCEBOX_LINK_KEYS=" + testLinkKey), "ONCEBOX_LINK_KEYS"},
		"wrong keys":         {with("ONCEBOX_CLAIMANT_FROM=link", "ONCEBOX_LINK_KEYS=hunter2!"), "ONCEBOX_LINK_KEYS"},
		"a private key":      {with("ONCEBOX_CLAIMANT_FROM=link", "ONCEBOX_LINK_KEYS=-----BEGIN PRIVATE KEY----- hunter2"), "ONCEBOX_LINK_KEYS"},
		"link with a part":   {with("ONCEBOX_CLAIMANT_FROM=link:x"), "ONCEBOX_CLAIMANT_FROM"},
		"other identity":     {with("ONCEBOX_CLAIMANT_FROM=JWT:sub"), "ONCEBOX_CLAIMANT_FROM"},
		"negative cache":     {with("ONCEBOX_CAMPAIGN_CACHE=-1s"), "ONCEBOX_CAMPAIGN_CACHE"},
		"long cache":         {with("ONCEBOX_CAMPAIGN_CACHE=5001ms"), "ONCEBOX_CAMPAIGN_CACHE"},
		"cache without unit": {with("ONCEBOX_CAMPAIGN_CACHE=5"), "ONCEBOX_CAMPAIGN_CACHE"},
		"metrics":            {with("ONCEBOX_METRICS=yes"), "ONCEBOX_METRICS"},
		"bad level":          {with("ONCEBOX_LOG_LEVEL=INFO"), "ONCEBOX_LOG_LEVEL"},
		"everything": {
			[]string{"ONCEBOX_X=hunter2", "ONCEBOX_BANK_TABLE=hunter2!", "ONCEBOX_CLAIMANT_FROM=hunter2",
				"ONCEBOX_CAMPAIGN_CACHE=hunter2", "ONCEBOX_LOG_LEVEL=hunter2"},
			"ONCEBOX_X ONCEBOX_BANK_TABLE ONCEBOX_DEDUPE_TABLE ONCEBOX_CLAIMANT_FROM ONCEBOX_CAMPAIGN_CACHE ONCEBOX_LOG_LEVEL",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := claimapi.ParseSettings(c.environ)
			if err == nil {
				t.Fatal("accepted")
			}
			equal(t, "variables at fault", faultyVariables(t, err), c.names)
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the message repeats a value: %v", err)
			}
		})
	}
}

// faultyVariables lists the variables that the message names. For each, the message must say what is allowed.
func faultyVariables(t *testing.T, err error) string {
	t.Helper()
	wrong, ok := errors.AsType[*settings.Error](err)
	if !ok {
		t.Fatalf("the error is %v", err)
	}
	var names []string
	for _, p := range wrong.Problems {
		if p.Allowed == "" {
			t.Errorf("%q does not say what is allowed", p)
		}
		names = append(names, p.Name)
	}
	return strings.Join(names, " ")
}

func TestOptions(t *testing.T) {
	t.Parallel()
	o, err := claimapi.ParseOptions([]string{"ONCEBOX_STORE=sqlite:x.db", "ONCEBOX_CAMPAIGN_CACHE=1s"})
	must(t, err)
	equal(t, "claimant from", o.ClaimantFrom.String(), "body")
	equal(t, "any caller", o.AnyCaller, false)
	equal(t, "campaign cache", o.CampaignCache, time.Second)
	o, err = claimapi.ParseOptions([]string{"ONCEBOX_CLAIMANT_FROM=iam", "ONCEBOX_LOG_LEVEL=debug"})
	must(t, err)
	equal(t, "claimant from", o.ClaimantFrom.String(), "iam")
	equal(t, "log level", o.LogLevel, slog.LevelDebug)
	_, err = claimapi.ParseOptions([]string{"ONCEBOX_CLAIMANT_FROM=nobody", "ONCEBOX_LOG_LEVEL=loud"})
	if err == nil {
		t.Fatal("accepted")
	}
	equal(t, "variables at fault", faultyVariables(t, err), "ONCEBOX_CLAIMANT_FROM ONCEBOX_LOG_LEVEL")
}
