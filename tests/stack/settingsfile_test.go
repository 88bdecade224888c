package stack

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/oncebox/oncebox/infra"
)

// refusedFiles are settings files that are wrong, with the text of the error.
var refusedFiles = []struct{ name, content, says string }{
	{"nothing", "", "prod.yaml has no settings"},
	{"a comment only", "# later\n", "prod.yaml has no settings"},
	{"a text", "claims", "prod.yaml has no settings"},
	{"no YAML", "claims:\n  auth: iam\n records:\n", "prod.yaml is not YAML: line 2"},
	{"no YAML in UTF-8", "claims: \xff", "prod.yaml is not YAML"},
	{"two documents", "claims: none\nrecords: {id-path: id}\n---\nclaims: none\n", "prod.yaml has a second document, after ---"},
	{"text after the document", "claims: none\nrecords: {id-path: id}\n---\n}", "prod.yaml has a second document, after ---"},
	{
		"a key twice", "claims: none\nrecords:\n  id-path: id\n  scope: orders\n  id-path: event.id\n",
		"records.id-path in prod.yaml, line 5: the key is in line 3, too; remove one",
	},
	{"a part twice", "claims: none\nrecords: {id-path: id}\nclaims: {auth: open}\n", "claims in prod.yaml, line 3: the key is in line 1"},
	{"a path as a key", "claims.auth: iam\nclaims: {}\nrecords: none\n", "claims.auth in prod.yaml, line 1: a key has no dots; write claims:"},
	{"an anchor", "claims: &c {auth: iam}\nrecords: none\n", "claims in prod.yaml, line 1: anchors"},
	{"an alias", "stack: &s shop\nclaims: {auth: iam, bank-table: *s}\nrecords: none\n", "stack in prod.yaml, line 1: anchors ... claims.bank-table in prod.yaml, line 2: anchors"},
	{"a merge key", "claims: {auth: iam, <<: {page: on}}\nrecords: none\n", "claims.<< in prod.yaml, line 1: a key is a word"},
	{"a tag", "stack: !!binary c2hvcA==\nclaims: {auth: iam}\nrecords: none\n", "stack in prod.yaml, line 1: anchors, aliases and tags"},
	{"a tag of a list", "claims: none\nrecords: {id-path: id, volatile: !!set [a]}\n", "records.volatile in prod.yaml, line 2: anchors, aliases and tags"},
	{"a list as a key", "? [claims]\n: none\nrecords: none\n", "line 1: a key is a word"},
	{"a number as a key", "1: 2\nclaims: {auth: iam}\nrecords: none\n", "1 in prod.yaml, line 1: there is no such key"},
	{"a part without keys", "claims:\nrecords: none\n", "claims in prod.yaml, line 1: write the keys of this part below it"},
	{"a misspelt part", "clams: none\nrecords: {id-path: id}\n", "clams in prod.yaml, line 1: did you mean claims?"},
	{"a misspelt part with keys", "claims: none\nrecord: {id-path: id}\n", "record in prod.yaml, line 2: did you mean records?"},
	{"a name of a part in capitals", "Claims: {auth: iam}\nrecords: none\n", "Claims in prod.yaml, line 1: did you mean claims?"},
	{"keys of an unknown key", "claims: none\nrecords: {id-path: id}\nfunction: {memory: 1}\n", "function in prod.yaml, line 3: there is no such key (allowed: "},
	{"an unknown key above its value", "claims: none\nrecords:\n  id-path: id\n  scop:\n    orders\n", "records.scop in prod.yaml, line 4: did you mean scope?"},
	{"a part in capitals", "claims: None\nrecords: {id-path: id}\n", "claims in prod.yaml, line 1: write the keys of this part"},
	{"a part as a list", "claims: [auth]\nrecords: none\n", "claims in prod.yaml, line 1: write the keys of this part"},
	{"no value", "claims:\n  auth:\nrecords: none\n", "claims.auth in prod.yaml, line 2: it has no value; write one, or leave the key out"},
	{"an empty text", "claims: {auth: ''}\nrecords: none\n", "claims.auth in prod.yaml, line 1: it has no value"},
	{"null", "claims: {auth: iam, page: ~}\nrecords: none\n", "claims.page in prod.yaml, line 1: it has no value"},
	{"an empty list", "claims: {auth: iam, cors-origins: []}\nrecords: none\n", "claims.cors-origins in prod.yaml, line 1: the list is empty"},
	{"an empty value of a list", "claims: none\nrecords: {id-path: id, volatile: [a, '']}\n", "records.volatile in prod.yaml, line 2: it has no value"},
	{"null in a list", "claims: none\nrecords: {id-path: id, volatile: [a, null]}\n", "records.volatile in prod.yaml, line 2: it has no value"},
	{"a list in a list", "claims: none\nrecords: {id-path: id, volatile: [[a]]}\n", "records.volatile in prod.yaml, line 2: a list has texts and numbers only"},
	{"white space in a list", "claims: none\nrecords: {id-path: id, volatile: [' a', 'b ']}\n", "records.volatile in prod.yaml, line 2: it has white space at an end"},
	{"white space behind a text", "claims: {auth: iam, claimant-from: 'iam '}\nrecords: none\n", "claims.claimant-from in prod.yaml, line 1: it has white space at an end"},
	{"a comma in a list", "claims: none\nrecords: {id-path: id, volatile: ['a,b']}\n", "records.volatile in prod.yaml, line 2: a value of a list has no comma"},
	{"keys in a value", "claims: none\nrecords:\n  id-path: id\n  scope: {a: b}\n", "records.scope in prod.yaml, line 4: it has keys of its own"},
	{"a list for a text", "claims: none\nrecords: {id-path: [id]}\n", "records.id-path in prod.yaml, line 2: it is a list; write one value"},
	{"a list for a switch", "claims: {auth: iam, page: [on]}\nrecords: none\n", "claims.page in prod.yaml, line 1: it is a list; write one value"},
	{"a truth for a number", "claims: {auth: iam, rate-limit: true}\nrecords: none\n", "claims.rate-limit in prod.yaml, line 1: it is true, which is for switches only"},
	{"a truth for a text", "claims: none\nrecords: {id-path: id, scope: false}\n", "records.scope in prod.yaml, line 2: it is false, which is for switches only; write another value, or put it in quotes"},
	{"a switch of YAML 1.1", "claims: {auth: iam, page: yes}\nrecords: none\n", "claims.page is neither on nor off"},
	{"a token of the CDK", "claims: {auth: iam, cors-origins: ['#{Token[TOKEN.1]}']}\nrecords: none\n", "claims.cors-origins in prod.yaml, line 1: it contains {Token["},
	{"a duration that is too short", "claims: none\nrecords: {id-path: id, window: 500ms}\n", "records.window is shorter than 1s (allowed: a duration of at least 1s, as in 30s, 15m, 24h or 7d)"},
	{"a power of ten", "claims: none\nrecords: {id-path: id, memory: 1e3}\n", "records.memory is out of range or not a number (allowed: a whole number from 1)"},
	{"a number with a point", "claims: {auth: iam, rate-limit: 10.0}\nrecords: none\n", "claims.rate-limit ... a whole number from 1"},
}

// TestSettingsFilesAreRefused checks that a file is read strictly: nothing in it is dropped, and nothing hides a value.
func TestSettingsFilesAreRefused(t *testing.T) {
	for _, r := range refusedFiles {
		t.Run(r.name, func(t *testing.T) {
			context := contextOf(t, nil)
			context["oncebox:settings"] = writeSettings(t, r.content)
			_, err := infra.NewStack(newApp(t, context))
			if err == nil {
				t.Fatal("it is not refused")
			}
			says(t, err.Error(), r.says)
		})
	}
}

// TestVariableAsAKey checks that the name of a variable leads to its key, in whatever part it is written.
func TestVariableAsAKey(t *testing.T) {
	message := refused(t, map[string]any{"claims.ONCEBOX_CLAIMANT_FROM": "iam", "ONCEBOX_PAGE": "on"})
	for _, want := range []string{
		"claims.ONCEBOX_CLAIMANT_FROM in prod.yaml, line 1: did you mean claimant-from?",
		"\nONCEBOX_PAGE in prod.yaml, line 1: did you mean claims.page?",
	} {
		if !strings.Contains("\n"+message, want) {
			t.Errorf("it says\n%s\nand not %q", message, want)
		}
	}
}

// TestContextIsRefused checks that the context has the settings file and the code, and nothing else.
func TestContextIsRefused(t *testing.T) {
	for _, r := range []struct {
		name  string
		value any
		says  string
	}{
		{"oncebox:settings", "", "oncebox:settings is not set; add --context oncebox:settings=FILE to the command"},
		{"oncebox:settings", "no/prod.yaml", `oncebox:settings is "no/prod.yaml", and the file cannot be read: no such file`},
		{"oncebox:settings", t.TempDir(), "cannot be read: is a directory"},
		{"oncebox:settings", map[string]any{"stack": "shop"}, "oncebox:settings is not a text"},
		{"oncebox:auth", "open", "oncebox:auth is not a context value (allowed: oncebox:settings, ... write settings into the file"},
	} {
		context := contextOf(t, nil)
		context[r.name] = r.value
		_, err := infra.NewStack(newApp(t, context))
		if err == nil {
			t.Errorf("%s=%v is not refused", r.name, r.value)
			continue
		}
		says(t, err.Error(), r.says)
	}
}

// TestNameOfTheSettingsFile checks that the stack tells the name of its file, and refuses names that no tag can have.
func TestNameOfTheSettingsFile(t *testing.T) {
	for name, ok := range map[string]bool{
		"prod.yaml": true, "eu west-1@prod_2.yml": true, "\u00e9t\u00e9": true, "prod(1).yaml": false, "prod,eu.yaml": false,
	} {
		context := contextOf(t, values("claims=none"))
		file := filepath.Join(t.TempDir(), name)
		must(t, os.Rename(context["oncebox:settings"].(string), file))
		context["oncebox:settings"] = file
		stack, err := infra.NewStack(newApp(t, context))
		if !ok {
			if err == nil || !strings.Contains(err.Error(), "rename the file") {
				t.Errorf("%s: got %v", name, err)
			}
			continue
		}
		must(t, err)
		if got := *(*stack.Tags().TagValues())["oncebox:settings"]; got != name {
			t.Errorf("the tag names %s, want %s", got, name)
		}
	}
}

// TestLinkKeysOfAFile checks that a relative path begins in the folder of the settings file.
func TestLinkKeysOfAFile(t *testing.T) {
	folder := t.TempDir()
	must(t, os.WriteFile(filepath.Join(folder, "link.key.pub"), []byte(linkKey+"\n"), 0o600))
	for _, path := range []string{"link.key.pub", filepath.Join(folder, "link.key.pub")} {
		context := contextOf(t, values("records=none; auth=link; link-keys=file:"+path))
		content, err := os.ReadFile(context["oncebox:settings"].(string))
		must(t, err)
		context["oncebox:settings"] = filepath.Join(folder, "prod.yaml")
		must(t, os.WriteFile(filepath.Join(folder, "prod.yaml"), content, 0o600))
		app := newApp(t, context)
		stack, err := infra.NewStack(app)
		must(t, err)
		made := rendered(templateOf(t, app, stack))
		if !strings.Contains(made, `"ONCEBOX_LINK_KEYS":"`+linkKey+`"`) {
			t.Errorf("%s: the function does not get the keys", path)
		}
	}
}

// fileInDocument matches a settings file in a document, or lines of one: its indent, whether it is a part, its name and its
// content.
var fileInDocument = regexp.MustCompile("(?ms)^( *)```yaml (part of )?(\\S+)\n(.*?)^ *```$")

// filesInDocument adds the settings files of a document to files. A file that is pasted over another one resets what the
// other has set. So each has a name and a stack of its own, and a part of a file says that there are other lines.
func filesInDocument(t *testing.T, document, text string, files map[string]string) {
	t.Helper()
	blocks := fileInDocument.FindAllStringSubmatch(text, -1)
	for _, block := range blocks {
		name := block[3]
		content := regexp.MustCompile(`(?m)^`+block[1]).ReplaceAllString(block[4], "")
		_, isTaken := files[name]
		switch example, err := os.ReadFile(filepath.Join(root, name)); {
		case block[2] != "":
			if !strings.Contains(content, "# ... your other lines") {
				t.Errorf("%s: the part of %s does not say that the file has other lines", document, name)
			}
			name, content = "part of "+name+" in "+document, wholeFile(t, content)
		case err == nil && !strings.HasSuffix(string(example), content):
			t.Errorf("%s shows another %s", document, name)
		case err != nil && (isTaken || !strings.HasPrefix(content, "stack: "+strings.TrimSuffix(name, ".yaml")+"\n")):
			t.Errorf("%s: %s has no stack of its own, of the same name as the file", document, name)
		}
		files[name] = content
	}
	if strings.Count(text, "```yaml") != len(blocks) {
		t.Errorf("%s: a yaml block names no file", document)
	}
}

// wholeFile returns a settings file that has these lines.
func wholeFile(t *testing.T, lines string) string {
	t.Helper()
	var part map[string]any
	must(t, yaml.Unmarshal([]byte(lines), &part))
	whole := fileOf(t, nil)
	for key, value := range part {
		if keys, ok := value.(map[string]any); ok {
			maps.Copy(whole[key].(map[string]any), keys)
		} else {
			whole[key] = value
		}
	}
	content, err := yaml.Marshal(whole)
	must(t, err)
	return string(content)
}

// TestSettingsOfDocuments makes the stacks of the settings files that the documents show, and of the examples.
func TestSettingsOfDocuments(t *testing.T) {
	files := map[string]string{} // by their names
	patterns, fewest := []string{"/README.md", "/docs/*.md"}, 10
	if testing.Short() { // make check has all
		patterns, fewest = patterns[:1], 2
	}
	for _, pattern := range patterns {
		documents, err := filepath.Glob(root + pattern)
		must(t, err)
		for _, document := range documents {
			text, err := os.ReadFile(document)
			must(t, err)
			filesInDocument(t, filepath.Base(document), string(text), files)
		}
	}
	examples, err := filepath.Glob(root + "/examples/settings/*")
	must(t, err)
	for _, example := range examples {
		content, err := os.ReadFile(example)
		must(t, err)
		files[strings.TrimPrefix(example, root+"/")] = string(content)
	}
	if len(files) < fewest {
		t.Errorf("the documents have only %d files", len(files))
	}
	for name, content := range files {
		t.Run(name, func(t *testing.T) {
			context := contextOf(t, nil)
			path := writeSettings(t, content)
			must(t, os.WriteFile(filepath.Join(filepath.Dir(path), "link.key.pub"), []byte(linkKey), 0o600))
			context["oncebox:settings"] = path
			app := newApp(t, context)
			stack, err := infra.NewStack(app)
			must(t, err)
			made := templateOf(t, app, stack)
			for _, wrong := range broken(made, settingsIn(t, content)) {
				t.Error(wrong)
			}
		})
	}
}

// settingsIn returns the settings of a file, by their keys.
func settingsIn(t *testing.T, content string) map[string]any {
	t.Helper()
	var file map[string]any
	must(t, yaml.Unmarshal([]byte(content), &file))
	settings := maps.Clone(file)
	for _, part := range []string{"claims", "records"} {
		if keys, ok := file[part].(map[string]any); ok {
			maps.Copy(settings, keys)
		}
	}
	return settings
}
