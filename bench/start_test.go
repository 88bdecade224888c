package bench

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/testengine"
)

// settle is the time in which an emulator finishes its own start. Otherwise that would continue during the function's
// start.
const settle = 50 * time.Millisecond

// handler is a function to start. It has the settings of a whole stack. The answer to the event needs no client.
type handler struct {
	name     string
	maxInit  float64 // the goal for its init time, as a multiple of an empty Go handler's; 0: none
	source   string
	settings []string
	event    string
	reply    string // a part of the answer that tells that the function is well

	bootstrap string
	raw       []byte // the event
}

func handlers() []*handler {
	records := []string{
		"ONCEBOX_DEDUPE_TABLE=dedupe", "ONCEBOX_ID_PATH=event.id", "ONCEBOX_SINK=kinesis:unique",
		"ONCEBOX_DEAD_LETTERS=s3://failures/records?notify=https://sqs.us-east-1.amazonaws.com/123456789012/notifier",
	}
	const noRecords, done = "dedupe/empty-records", `{"batchItemFailures":[]}`
	return []*handler{
		{name: "empty", source: "./bench/empty", event: noRecords, reply: "null"},
		{name: "clients", source: "./bench/clients", event: noRecords, reply: "null"},
		{name: "claim", maxInit: 2, source: "./functions/claim", event: "claim/unknown-route", reply: `"statusCode":404`, settings: []string{
			"ONCEBOX_BANK_TABLE=bank", "ONCEBOX_DEDUPE_TABLE=dedupe", "ONCEBOX_CLAIMANT_FROM=jwt:sub",
		}},
		{name: "dedupe", maxInit: 1.5, source: "./functions/dedupe", event: noRecords, reply: done, settings: records},
		{name: "dedupe-full", source: "./functions/dedupe-full", event: noRecords, reply: done, settings: records},
	}
}

// BenchmarkStart measures the start of each function against that of an empty Go
// handler which is built with the same flags:
//
//   - init: what the runtime emulator reports. It is the time from just before it
//     starts the process until the function asks for its first event.
//   - first reply: from the POST of an event to a fresh emulator, which starts the
//     function then, to the answer.
//   - processor time: what the process used, user and system, until it asks for its
//     first event. There is no emulator in it, so it is the strictest of the three.
func BenchmarkStart(b *testing.B) {
	all := handlers()
	for _, h := range all {
		h.prepare(b)
	}
	empty, functions := all[0], all[1:]
	init, reply, cpu := make([]pairs, len(functions)), make([]pairs, len(functions)), make([]pairs, len(functions))
	for b.Loop() {
		floorInit, floorReply := empty.inEmulator(b)
		floorCPU := empty.untilReady(b)
		for i, f := range functions {
			fInit, fReply := f.inEmulator(b)
			init[i].add(fInit, floorInit)
			reply[i].add(fReply, floorReply)
			cpu[i].add(f.untilReady(b), floorCPU)
		}
	}
	b.ReportMetric(0, "ns/op") // of a round, which says nothing
	for i, f := range functions {
		init[i].report("start of "+f.name+": init", f.maxInit)
		reply[i].report("start of "+f.name+": first reply", 0)
		cpu[i].report("start of "+f.name+": processor time", 0)
	}
}

// prepare builds the function, as it is deployed but for this machine.
func (h *handler) prepare(b *testing.B) {
	b.Helper()
	linked := filepath.Join(b.TempDir(), h.name)
	if out, err := exec.Command("../scripts/build-function", h.source, runtime.GOARCH, linked).CombinedOutput(); err != nil {
		b.Fatalf("scripts/build-function: %v\n%s", err, out)
	}
	// A file that was written at once, as Lambda's is, has larger pieces in memory than a file that a linker made. It
	// loads up to a sixth faster.
	content := readFile(b, linked)
	h.bootstrap = filepath.Join(b.TempDir(), "bootstrap")
	if err := os.WriteFile(h.bootstrap, content, 0o700); err != nil {
		b.Fatal(err)
	}
	h.raw = readFile(b, "../events/"+h.event+".json")
}

func readFile(b *testing.B, path string) []byte {
	b.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		b.Fatal(err)
	}
	return content
}

// environment returns all variables of the function: credentials, as Lambda gives them, and none of the developer's
// own AWS settings.
func (h *handler) environment(more ...string) []string {
	return append(append([]string{
		"PATH=" + os.Getenv("PATH"), "AWS_LAMBDA_FUNCTION_NAME=" + h.name, "AWS_REGION=us-east-1",
		"AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_SESSION_TOKEN=test",
	}, h.settings...), more...)
}

// initReport is the emulator's line about a start. (Its REPORT line says "Init
// Duration" too, of something else: 0.02 ms for any function.)
var initReport = regexp.MustCompile(`INIT REPORT\(durationMs: ([0-9.]+)\)`)

// inEmulator starts the function in a new emulator, with its first event.
func (h *handler) inEmulator(b *testing.B) (init, reply time.Duration) {
	b.Helper()
	log, err := os.Create(filepath.Join(b.TempDir(), "log"))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	api, runtimeAPI := freeAddresses(b)
	emulator := exec.Command(testengine.Tool(b, "aws-lambda-rie"),
		"--runtime-interface-emulator-address", api, "--runtime-api-address", runtimeAPI, h.bootstrap)
	emulator.Env, emulator.Stdout, emulator.Stderr = h.environment(), log, log
	if err := emulator.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() {
		_ = emulator.Process.Signal(syscall.SIGTERM) // killed, it would orphan its function
		_ = emulator.Wait()
	}()
	awaitListener(b, api)
	awaitListener(b, runtimeAPI) // which the emulator opens last
	time.Sleep(settle)

	begun := time.Now()
	answer := post(b, "http://"+api+"/2015-03-31/functions/function/invocations", h.raw)
	reply = time.Since(begun)
	output := readFile(b, log.Name())
	report := initReport.FindSubmatch(output)
	if report == nil || !strings.Contains(answer, h.reply) {
		b.Fatalf("%s answers %s; the emulator's log:\n%s", h.name, answer, output)
	}
	init, err = time.ParseDuration(string(report[1]) + "ms")
	if err != nil {
		b.Fatal(err)
	}
	return init, reply
}

func post(b *testing.B, url string, body []byte) (answer string) {
	b.Helper()
	response, err := http.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		b.Fatal(err)
	}
	return string(content)
}

// freeAddresses are two addresses on which nothing listens.
func freeAddresses(b *testing.B) (string, string) {
	b.Helper()
	var addresses [2]string
	for i := range addresses {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = listener.Close() }() // both at the end, so that they differ
		addresses[i] = listener.Addr().String()
	}
	return addresses[0], addresses[1]
}

func awaitListener(b *testing.B, address string) {
	b.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		connection, err := net.Dial("tcp", address)
		if err == nil {
			_ = connection.Close()
			return
		}
		if time.Now().After(deadline) {
			b.Fatalf("nothing listens: %v", err)
		}
	}
}

// untilReady starts the function on a runtime API that has no event, and returns
// the processor time that it used when it asked for one.
func (h *handler) untilReady(b *testing.B) time.Duration {
	b.Helper()
	asked := make(chan string, 1)
	api := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case asked <- r.URL.Path:
		default: // it was killed already
		}
		<-r.Context().Done()
	}))
	defer api.Close()
	var output bytes.Buffer
	function := exec.Command(h.bootstrap)
	function.Env = h.environment("AWS_LAMBDA_RUNTIME_API=" + api.Listener.Addr().String())
	function.Stdout, function.Stderr = &output, &output
	if err := function.Start(); err != nil {
		b.Fatal(err)
	}
	var path string
	select {
	case path = <-asked:
	case <-time.After(10 * time.Second):
	}
	_ = function.Process.Kill()
	_ = function.Wait() // it was killed
	if !strings.HasSuffix(path, "/runtime/invocation/next") {
		b.Fatalf("%s asks for %q, and says: %s", h.name, path, output.String())
	}
	return function.ProcessState.UserTime() + function.ProcessState.SystemTime()
}
