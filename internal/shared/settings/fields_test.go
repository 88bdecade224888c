package settings_test

import (
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/oncebox/oncebox/internal/shared/settings"
	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/recordhandler"
	"github.com/oncebox/oncebox/pkg/sweephandler"
)

// some are settings of every type, with every tag.
type some struct {
	BankTable string         `table:"" required:"" function:""`
	IDPath    string         `allowed:"a path"`
	IDs       string         `default:"first"`
	Acks      string         `default:"on" oneof:"on,off"`
	LogLevel  string         `default:"info" oneof:"debug,info,warn,error" is:"a log level"`
	Hosts     []string       `unset:"all"`
	Window    time.Duration  `default:"2d" least:"1s" most:"7d" allowed:"1s to 7d"`
	Cache     *time.Duration `most:"5s" allowed:"up to 5s"`
}

const allowedTable = " (allowed: a DynamoDB table name, 3 to 255 of a-z, A-Z, 0-9, _, . and -)"

func TestVariable(t *testing.T) {
	t.Parallel()
	for field, want := range map[string]string{
		"Sink": "ONCEBOX_SINK", "IDPath": "ONCEBOX_ID_PATH", "IDs": "ONCEBOX_IDS", "RawID": "ONCEBOX_RAW_ID",
		"ChallengeSecretARN": "ONCEBOX_CHALLENGE_SECRET_ARN", "CORSOrigins": "ONCEBOX_CORS_ORIGINS",
	} {
		wantValue(t, settings.Variable(field), want)
	}
	wantValue(t, settings.Fields(some{})[1].Word, "id-path")
}

func TestReadDefaults(t *testing.T) {
	t.Parallel()
	var s some
	r := settings.Read([]string{"ONCEBOX_BANK_TABLE=a.b-C_1", "ONCEBOX_ACKS=", "ONCEBOX_STORE="}, &s, true)
	wantProblem(t, r, "")
	wantValue(t, r.Word(&s.IDs), "first")
	wantValue(t, r.On(&s.Acks), true)
	wantValue(t, r.Level(&s.LogLevel), slog.LevelInfo)
	wantValue(t, r.Time(&s.Window), 48*time.Hour)
	if want := (some{BankTable: "a.b-C_1"}); !reflect.DeepEqual(s, want) {
		t.Errorf("settings that are not set have values: %+v", s)
	}
}

func TestReadGiven(t *testing.T) {
	t.Parallel()
	var s some
	r := settings.Read([]string{
		"ONCEBOX_IDS=last", "ONCEBOX_ACKS=off", "ONCEBOX_LOG_LEVEL=warn", "ONCEBOX_HOSTS=a, b", "ONCEBOX_WINDOW=1h", "ONCEBOX_CACHE=0",
	}, &s, false)
	wantProblem(t, r, "")
	wantValue(t, r.Word(&s.IDs), "last")
	wantValue(t, r.On(&s.Acks), false)
	wantValue(t, r.Level(&s.LogLevel), slog.LevelWarn)
	wantValue(t, r.Time(&s.Window), time.Hour)
	if want := (some{
		IDs: "last", Acks: "off", LogLevel: "warn", Hosts: []string{"a", "b"}, Window: time.Hour, Cache: new(time.Duration),
	}); !reflect.DeepEqual(s, want) {
		t.Errorf("got %+v", s)
	}
}

// TestReadWrong: each problem says what is allowed. No problem repeats the value.
func TestReadWrong(t *testing.T) {
	t.Parallel()
	for variable, want := range map[string]string{
		"ONCEBOX_BANK_TABLE=":                            "ONCEBOX_BANK_TABLE is missing" + allowedTable,
		"ONCEBOX_BANK_TABLE=ab":                          "ONCEBOX_BANK_TABLE is not a table name" + allowedTable,
		"ONCEBOX_BANK_TABLE=hunter2 2":                   "ONCEBOX_BANK_TABLE is not a table name" + allowedTable,
		"ONCEBOX_BANK_TABLE=" + strings.Repeat("a", 256): "ONCEBOX_BANK_TABLE is not a table name" + allowedTable,
		"ONCEBOX_ACKS=hunter2":                           "ONCEBOX_ACKS is neither on nor off (allowed: on or off)",
		"ONCEBOX_ACKS=ON":                                "ONCEBOX_ACKS is neither on nor off (allowed: on or off)",
		"ONCEBOX_LOG_LEVEL=hunter2":                      "ONCEBOX_LOG_LEVEL is not a log level (allowed: debug, info, warn or error)",
		"ONCEBOX_WINDOW=hunter2":                         "ONCEBOX_WINDOW is not a duration (allowed: 1s to 7d)",
		"ONCEBOX_WINDOW=8d":                              "ONCEBOX_WINDOW is longer than 7d (allowed: 1s to 7d)",
		"ONCEBOX_CACHE=-1s":                              "ONCEBOX_CACHE is shorter than 0s (allowed: up to 5s)",
		"ONCEBOX_IDS_PATH=hunter2":                       "ONCEBOX_IDS_PATH is not a known setting, did you mean ONCEBOX_ID_PATH?",
	} {
		var s some
		environ := []string{variable}
		if !strings.HasPrefix(variable, "ONCEBOX_BANK_TABLE") {
			environ = append(environ, "ONCEBOX_BANK_TABLE=bank")
		}
		wantProblem(t, settings.Read(environ, &s, true), want)
	}
}

// TestReadOutsideOfTheFunction: a program with the same handler has tables and variables of its own.
func TestReadOutsideOfTheFunction(t *testing.T) {
	t.Parallel()
	var s some
	wantProblem(t, settings.Read([]string{"ONCEBOX_BANK_TABLE=a", "ONCEBOX_STORE=x"}, &s, false), "")
	wantValue(t, s.BankTable, "")
}

// TestRefuse: problems are in the order of the fields, behind unknown settings.
func TestRefuse(t *testing.T) {
	t.Parallel()
	var s some
	r := settings.Read([]string{"ONCEBOX_BANK_TABLE=bank", "ONCEBOX_XXXXXXXX=1", "ONCEBOX_LOG_LEVEL=loud"}, &s, true)
	r.Refuse(&s.IDPath, "is wrong", "")
	r.Refuse(&s.IDs, "is not "+r.Variable(&s.IDPath), "it")
	var names []string
	for _, p := range r.Err().(*settings.Error).Problems { //nolint:errorlint // Err returns it unwrapped
		names = append(names, p.Name+" "+p.Allowed)
	}
	want := []string{"ONCEBOX_ID_PATH a path", "ONCEBOX_IDS it", "ONCEBOX_LOG_LEVEL debug, info, warn or error"}
	if !strings.HasPrefix(names[0], "ONCEBOX_XXXXXXXX ") || !slices.Equal(names[1:], want) {
		t.Errorf("got %q", names)
	}
}

func TestNamespace(t *testing.T) {
	t.Parallel()
	wantValue(t, settings.Namespace([]string{"AWS_LAMBDA_FUNCTION_NAME=oncebox-claims"}), "oncebox/oncebox-claims")
	wantValue(t, settings.Namespace([]string{"AWS_LAMBDA_FUNCTION_NAME="}), "oncebox/function")
}

// TestEnvironComesBack: for the settings of each function, ParseSettings is the inverse of Environ, also if it refuses
// the values.
func TestEnvironComesBack(t *testing.T) {
	t.Parallel()
	checkComesBack(t, claimapi.Settings.Environ, claimapi.ParseSettings)
	checkComesBack(t, sweephandler.Settings.Environ, sweephandler.ParseSettings)
	checkComesBack(t, recordhandler.Settings.Environ, recordhandler.ParseSettings)
}

// TestCheckLists: the lists that it accepts come back, and it refuses no other list that comes back.
func TestCheckLists(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		list := rapid.SliceOfN(rapid.StringMatching(`[ ,ab]{0,3}`), 1, 3).Draw(rt, "list")
		var back some
		settings.Read(settings.Environ(some{Hosts: list}), &back, false)
		if err := settings.CheckLists(some{Hosts: list}); (err == nil) != slices.Equal(list, back.Hosts) {
			rt.Fatalf("%q comes back as %q, and the error is %v", list, back.Hosts, err)
		}
	})
}

func checkComesBack[S, O any](t *testing.T, environ func(S) []string, parse func([]string) (S, O, error)) {
	t.Helper()
	rapid.Check(t, func(rt *rapid.T) {
		if err := comesBack(anySettings[S]().Draw(rt, "settings"), environ, parse); err != nil {
			rt.Fatal(err)
		}
	})
}

func comesBack[S, O any](s S, environ func(S) []string, parse func([]string) (S, O, error)) error {
	back, _, err := parse(environ(s))
	if !reflect.DeepEqual(s, back) {
		return fmt.Errorf("%+v comes back as %+v", s, back)
	}
	if wrong, ok := errors.AsType[*settings.Error](err); ok {
		for _, p := range wrong.Problems {
			if strings.Contains(p.What, "known setting") {
				return errors.New(p.String())
			}
		}
	}
	return nil
}

func anySettings[S any]() *rapid.Generator[S] {
	return rapid.Custom(func(rt *rapid.T) (s S) {
		for field, value := range reflect.ValueOf(&s).Elem().Fields() {
			draw(rt, field.Name, value)
		}
		return s
	})
}

// draw sets a field, or leaves it unset.
func draw(rt *rapid.T, name string, field reflect.Value) {
	duration := rapid.OneOf(rapid.Just(time.Duration(0)),
		rapid.Custom(func(rt *rapid.T) time.Duration { return time.Duration(rapid.Int64().Draw(rt, name)) }))
	switch into := field.Addr().Interface().(type) {
	case *string:
		*into = rapid.String().Draw(rt, name)
	case *[]string:
		if list := rapid.SliceOf(rapid.StringMatching(`[!-+.-~äß-]+`)).Draw(rt, name); len(list) > 0 {
			*into = list
		}
	case *time.Duration:
		*into = duration.Draw(rt, name)
	case **time.Duration:
		*into = rapid.Ptr(duration, true).Draw(rt, name)
	default:
		rt.Fatalf("%s has a type that no setting has", name)
	}
}
