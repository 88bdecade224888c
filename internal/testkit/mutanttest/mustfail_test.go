package mutanttest

import (
	"strings"
	"testing"
)

func TestMustFail(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		run   func(testing.TB)
		fails string // the text of MustFail's failure; empty: no failure
	}{
		"error":          {func(tb testing.TB) { tb.Error("found") }, ""},
		"errorf":         {func(tb testing.TB) { tb.Errorf("%d found", 1) }, ""},
		"fail":           {func(tb testing.TB) { tb.Fail() }, ""},
		"fatal":          {func(tb testing.TB) { tb.Fatal("found"); panic("not reached") }, ""},
		"fatalf":         {func(tb testing.TB) { tb.Fatalf("%d found", 1); panic("not reached") }, ""},
		"fail now":       {func(tb testing.TB) { tb.FailNow(); panic("not reached") }, ""},
		"error and skip": {func(tb testing.TB) { tb.Error("found"); tb.SkipNow() }, ""},
		"pass":           {func(tb testing.TB) { tb.Log("fine") }, "the case passed, so it does not find what is broken\nfine"},
		"skip":           {func(tb testing.TB) { tb.Skip("not here"); panic("not reached") }, "the case passed, so it does not find what is broken\nnot here"},
		"panic":          {func(testing.TB) { panic("oops") }, "the case panicked: oops"},
		"error, panic":   {func(tb testing.TB) { tb.Error("found"); panic("oops") }, "the case panicked: oops\nfound"},
	} {
		outer := &recorder{TB: t}
		outer.run(func(tb testing.TB) { MustFail(tb, test.run) })
		if got := strings.TrimSpace(outer.text()); got != test.fails || outer.Failed() != (test.fails != "") {
			t.Errorf("%s: want %q, got %q", name, test.fails, got)
		}
	}
}
