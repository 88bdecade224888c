// Package emftest reads log lines as CloudWatch Logs reads the embedded metric format. It applies the rules of the
// specification and of its JSON schema (CloudWatch User Guide, "Specification: Embedded metric format"). It also
// applies the rules of MetricDatum and Dimension for stored metrics (CloudWatch API Reference).
package emftest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// Point is a value of a metric, as CloudWatch stores it.
type Point struct {
	Namespace  string
	Name       string
	Unit       string
	Dimensions string // NAME=VALUE, in the order of their names, with commas between
	Value      float64
}

// These are limits of the specification.
const (
	maxLine       = 1 << 20
	maxMetrics    = 100
	maxDimensions = 30
	maxNamespace  = 255 // the limit of MetricDatum; the schema has 1,024
	maxName       = 255 // the limit of MetricDatum; the schema has 1,024
	maxDimension  = 250 // the characters of a reference to a dimension
	maxValue      = 1024
	maxArray      = 100
)

// oldest and newest limit the time of a metric, from now (CloudWatch API Reference, "PutMetricData").
const oldest, newest = 14 * 24 * time.Hour, 2 * time.Hour

var (
	namespaceForm = regexp.MustCompile(`^[0-9A-Za-z._\-/#: ]+$`)
	printable     = regexp.MustCompile(`^[ -~]*[!-~][ -~]*$`)
)

var units = strings.Fields(`Seconds Microseconds Milliseconds Bytes Kilobytes Megabytes Gigabytes Terabytes Bits Kilobits
	Megabits Gigabits Terabits Percent Count Bytes/Second Kilobytes/Second Megabytes/Second Gigabytes/Second
	Terabytes/Second Bits/Second Kilobits/Second Megabits/Second Gigabits/Second Terabits/Second Count/Second None`)

// Points returns the values of all lines of a log. It fails the test for a line that is not a JSON object, and for a
// line with metrics that breaks a rule.
func Points(t testing.TB, log []byte) (all []Point) {
	t.Helper()
	for line := range bytes.Lines(log) {
		points, err := pointsOf(bytes.TrimSuffix(line, []byte("\n")))
		if err != nil {
			t.Errorf("%v in the line %s", err, line)
		}
		all = append(all, points...)
	}
	return all
}

// Sum adds up the values of a metric with these dimensions, and counts them.
func Sum(points []Point, name, dimensions string) (sum float64, count int) {
	for _, p := range points {
		if p.Name == name && p.Dimensions == dimensions {
			sum, count = sum+p.Value, count+1
		}
	}
	return sum, count
}

type directive struct {
	Namespace  *string
	Dimensions [][]string
	Metrics    []struct {
		Name              string
		Unit              string
		StorageResolution *int
	}
}

// pointsOf returns the values of one line. A line without _aws has none.
func pointsOf(line []byte) ([]Point, error) {
	if len(line) > maxLine {
		return nil, fmt.Errorf("%d bytes", len(line))
	}
	if err := uniqueMembers(line); err != nil {
		return nil, err
	}
	var root map[string]json.RawMessage
	if err := strict(line, &root); err != nil {
		return nil, err
	}
	if root["_aws"] == nil {
		return nil, nil
	}
	var metadata struct {
		Timestamp         *int64
		CloudWatchMetrics *[]directive
	}
	if err := strict(root["_aws"], &metadata); err != nil {
		return nil, err
	}
	switch {
	case metadata.Timestamp == nil || metadata.CloudWatchMetrics == nil:
		return nil, errors.New("_aws lacks Timestamp or CloudWatchMetrics")
	case !between(time.Until(time.UnixMilli(*metadata.Timestamp)), -oldest, newest):
		return nil, fmt.Errorf("the timestamp %d is not taken", *metadata.Timestamp)
	}
	var points []Point
	for _, d := range *metadata.CloudWatchMetrics {
		more, err := d.read(root)
		if err != nil {
			return nil, err
		}
		points = append(points, more...)
	}
	return points, nil
}

func (d directive) read(root map[string]json.RawMessage) (points []Point, err error) {
	switch {
	case d.Namespace == nil || !between(len(*d.Namespace), 1, maxNamespace) || !namespaceForm.MatchString(*d.Namespace):
		return nil, errors.New("the namespace is missing, or has another form")
	case len(d.Dimensions) == 0:
		return nil, errors.New("there is no set of dimensions")
	case !between(len(d.Metrics), 1, maxMetrics):
		return nil, fmt.Errorf("%d metrics", len(d.Metrics))
	}
	for _, set := range d.Dimensions {
		dimensions, err := read(root, set)
		if err != nil {
			return nil, err
		}
		for _, m := range d.Metrics {
			values, err := numbers(root[m.Name])
			switch {
			case !between(len(m.Name), 1, maxName) || !printable.MatchString(m.Name):
				return nil, fmt.Errorf("the name %q", m.Name)
			case m.Unit != "" && !slices.Contains(units, m.Unit):
				return nil, fmt.Errorf("the unit %q", m.Unit)
			case m.StorageResolution != nil && *m.StorageResolution != 1 && *m.StorageResolution != 60:
				return nil, fmt.Errorf("the resolution %d", *m.StorageResolution)
			case err != nil:
				return nil, fmt.Errorf("%s: %w", m.Name, err)
			}
			for _, v := range values {
				points = append(points, Point{*d.Namespace, m.Name, m.Unit, dimensions, v})
			}
		}
	}
	return points, nil
}

// read returns the dimensions of a set, with their values.
func read(root map[string]json.RawMessage, set []string) (string, error) {
	if set == nil {
		return "", errors.New("a set of dimensions is null")
	}
	if len(set) > maxDimensions {
		return "", fmt.Errorf("%d dimensions", len(set))
	}
	var all []string
	for _, name := range slices.Sorted(slices.Values(set)) {
		var value *string
		if err := json.Unmarshal(root[name], &value); err != nil || value == nil {
			return "", fmt.Errorf("the dimension %q is no text of the root", name)
		}
		if !between(utf8.RuneCountInString(name), 1, maxDimension) || !printable.MatchString(name) || name[0] == ':' ||
			!between(utf8.RuneCountInString(*value), 1, maxValue) || !printable.MatchString(*value) {
			return "", fmt.Errorf("the dimension %q is %q", name, *value)
		}
		all = append(all, name+"="+*value)
	}
	return strings.Join(all, ","), nil
}

// numbers returns the value or the values of a metric.
func numbers(raw json.RawMessage) ([]float64, error) {
	var one *float64
	if err := json.Unmarshal(raw, &one); err == nil && one != nil {
		return []float64{*one}, nil
	}
	var several []*float64
	if err := json.Unmarshal(raw, &several); err != nil || !between(len(several), 1, maxArray) ||
		slices.Contains(several, nil) {
		return nil, fmt.Errorf("%s is no number and no array of 1 to %d numbers", raw, maxArray)
	}
	values := make([]float64, len(several))
	for i, v := range several {
		values[i] = *v
	}
	return values, nil
}

// strict decodes a JSON text. It refuses unknown members, and text after the value.
func strict(text []byte, value any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(value); err != nil {
		return err
	}
	if d.More() {
		return errors.New("there is more behind the object")
	}
	return nil
}

// uniqueMembers refuses an object that has a member twice, because it is undefined which of the two counts.
func uniqueMembers(line []byte) error {
	d := json.NewDecoder(bytes.NewReader(line))
	if token, err := d.Token(); err != nil || token != json.Delim('{') {
		return errors.New("the line is no JSON object")
	}
	seen := map[json.Token]bool{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		if seen[name] {
			return fmt.Errorf("the member %v exists twice", name)
		}
		seen[name] = true
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
	}
	return nil
}

func between[N int | time.Duration](n, least, most N) bool { return n >= least && n <= most }
