package cli

import (
	"fmt"
	"reflect"
	"strconv"
	"time"

	"github.com/alecthomas/kong"

	"github.com/oncebox/oncebox/internal/shared/address"
	"github.com/oncebox/oncebox/internal/shared/settings"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

// valueMappers read the values of flags. Unlike those of kong they take dates and days, and their errors have no Go
// types and layouts.
var valueMappers = kong.OptionFunc(func(k *kong.Kong) error {
	for of, parse := range map[reflect.Type]func(string) (any, error){
		reflect.TypeFor[time.Time]():     func(text string) (any, error) { return parseTime(text) },
		reflect.TypeFor[OpenTime]():      func(text string) (any, error) { return parseOpenTime(text) },
		reflect.TypeFor[EndTime]():       func(text string) (any, error) { return parseEndTime(text) },
		reflect.TypeFor[time.Duration](): func(text string) (any, error) { return parseDuration(text) },
		reflect.TypeFor[int]():           func(text string) (any, error) { return parseInt(text) },
		reflect.TypeFor[int64]():         func(text string) (any, error) { return parseInt64(text) },
		reflect.TypeFor[float64]():       func(text string) (any, error) { return parseNumber(text) },
		reflect.TypeFor[RowRate]():       func(text string) (any, error) { return parseRate(text) },
		reflect.TypeFor[PoisonLimit]():   func(text string) (any, error) { return parsePoisonLimit(text) },
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
			"ledger, or --store %s for one row a key in DynamoDB; write ./%s for a file of this name", scheme, DynamoDBStore, scheme)
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

func parseDuration(text string) (time.Duration, error) {
	d, err := settings.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration; use for example %s", text, settings.DurationForms)
	}
	return d, nil
}

func parseInt(text string) (int, error) {
	n, err := strconv.Atoi(text)
	return n, notWhole(text, err)
}

func parseInt64(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, notWhole(text, err)
}

func notWhole(text string, err error) error {
	if err != nil {
		return fmt.Errorf("%q is not a whole number", text)
	}
	return nil
}

func parseNumber(text string) (float64, error) {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number", text)
	}
	return n, nil
}

// RowRate is a number of rows a second. 0 is no limit, and cannot be given.
type RowRate int

func parseRate(text string) (RowRate, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%q is not a number of rows a second; use a whole number from 1", text)
	}
	return RowRate(n), nil
}

// PoisonLimit is a share of a number of records, or off.
type PoisonLimit settings.PoisonLimit

func parsePoisonLimit(text string) (PoisonLimit, error) {
	limit, err := settings.ParsePoisonLimit(text, dedupe.DefaultChunk)
	if err != nil {
		return PoisonLimit{}, fmt.Errorf("%q is not a share of a number of records; use for example %s",
			text, settings.PoisonLimitForms)
	}
	return PoisonLimit(limit), nil
}

// OpenTime is the value of --opens: a time, or now, which is the zero time.
type OpenTime time.Time

func parseOpenTime(text string) (OpenTime, error) {
	t, err := timeOrWord(text, "now")
	return OpenTime(t), err
}

// EndTime is the value of --closes: a time, or never, which is the zero time.
type EndTime time.Time

func parseEndTime(text string) (EndTime, error) {
	t, err := timeOrWord(text, "never")
	return EndTime(t), err
}

func timeOrWord(text, word string) (time.Time, error) {
	if text == word {
		return time.Time{}, nil
	}
	t, err := parseTime(text)
	if err != nil {
		err = fmt.Errorf("%w, or %s", err, word)
	}
	return t, err
}
