package main

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/oncebox/oncebox/internal/address"
	"github.com/oncebox/oncebox/internal/settings"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

// valueMappers read the values of flags. Unlike those of kong they take dates and days, and their errors have no Go
// types and layouts.
var valueMappers = kong.OptionFunc(func(k *kong.Kong) error {
	for of, parse := range map[reflect.Type]func(string) (any, error){
		reflect.TypeFor[time.Time]():     func(text string) (any, error) { return parseTime(text) },
		reflect.TypeFor[openTime]():      func(text string) (any, error) { return parseOpenTime(text) },
		reflect.TypeFor[endTime]():       func(text string) (any, error) { return parseEndTime(text) },
		reflect.TypeFor[time.Duration](): func(text string) (any, error) { return parseDuration(text) },
		reflect.TypeFor[int]():           func(text string) (any, error) { return parseInt(text) },
		reflect.TypeFor[float64]():       func(text string) (any, error) { return parseNumber(text) },
		reflect.TypeFor[rowRate]():       func(text string) (any, error) { return parseRate(text) },
		reflect.TypeFor[poisonLimit]():   func(text string) (any, error) { return parsePoisonLimit(text) },
	} {
		err := kong.TypeMapper(of, textMapper(parse)).Apply(k)
		if err != nil {
			return err
		}
	}
	return kong.NamedMapper("ledgerfile", textMapper(func(text string) (any, error) { return parseLedgerFile(text) })).Apply(k)
})

// parseLedgerFile refuses the ledgers of the function, which would be made as files.
func parseLedgerFile(text string) (string, error) {
	if recordhandler.IsLedger(text) {
		scheme := address.Scheme(text) // the rest may have a password
		return "", fmt.Errorf("%s is a ledger of the function, which stores no runs over files; this command needs the file of a "+
			"ledger, or --store %s for one row a key in DynamoDB; write ./%s for a file of this name", scheme, dynamodbStore, scheme)
	}
	return text, nil
}

// textMapper makes a mapper of a function that parses a text.
func textMapper(parse func(string) (any, error)) kong.MapperFunc {
	return func(ctx *kong.DecodeContext, target reflect.Value) error {
		var text string
		if err := ctx.Scan.PopValueInto("value", &text); err != nil {
			return err
		}
		value, err := parse(text)
		if err != nil {
			return err
		}
		target.Set(reflect.ValueOf(value))
		return nil
	}
}

// parseTime reads a date, which begins at midnight UTC, or an RFC 3339 time.
func parseTime(text string) (time.Time, error) {
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is not a time; use 2027-03-01 (midnight UTC) or 2027-03-01T09:00:00Z", text)
}

func parseDuration(text string) (time.Duration, error) {
	d, err := settings.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration; use for example %s", text, settings.DurationForms)
	}
	return d, nil
}

func parseInt(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a whole number", text)
	}
	return n, nil
}

func parseNumber(text string) (float64, error) {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number", text)
	}
	return n, nil
}

// rowRate is a number of rows a second. 0 is no limit, and cannot be given.
type rowRate int

func parseRate(text string) (rowRate, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%q is not a number of rows a second; use a whole number from 1", text)
	}
	return rowRate(n), nil
}

// rateFlag is the flag of the commands that read or write many rows.
type rateFlag struct {
	Rate rowRate `help:"Read and write at most N rows a second, to leave the capacity of the tables to a sale. Default: no limit." placeholder:"N"`
}

func (r rateFlag) option() itembank.Option { return itembank.WithRate(int(r.Rate)) }

// poisonLimit is a share of a number of records, or off.
type poisonLimit settings.PoisonLimit

func parsePoisonLimit(text string) (poisonLimit, error) {
	limit, err := settings.ParsePoisonLimit(text, dedupe.DefaultChunk)
	if err != nil {
		return poisonLimit{}, fmt.Errorf("%q is not a share of a number of records; use for example %s",
			text, settings.PoisonLimitForms)
	}
	return poisonLimit(limit), nil
}

// onOff is a switch: on or off, as the Lambda functions read it, or true or false.
type onOff bool

// IsBool makes a flag of it that needs no value.
func (*onOff) IsBool() bool { return true }

// Decode reads the value that follows, if there is one.
func (o *onOff) Decode(ctx *kong.DecodeContext) error {
	*o = true
	if ctx.Scan.Peek().Type != kong.FlagValueToken {
		return nil
	}
	switch value := fmt.Sprint(ctx.Scan.Pop().Value); strings.ToLower(value) {
	case "on", "true", "yes", "1":
	case "off", "false", "no", "0":
		*o = false
	default:
		return fmt.Errorf("%q is neither on nor off", value)
	}
	return nil
}
