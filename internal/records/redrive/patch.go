package redrive

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/itchyny/gojq"
)

// patchTime is how long a jq program may take for one payload, because a program can loop for ever.
const patchTime = 10 * time.Second

// NewPatch makes a Job.Patch from a jq program. The program has no access to the environment or other input. It must
// have one result. If it fails for a payload, the payload is refused and stays unchanged.
func NewPatch(program string) (func(ctx context.Context, payload []byte) ([]byte, error), error) {
	query, err := gojq.Parse(program)
	if err != nil {
		return nil, err
	}
	code, err := gojq.Compile(query)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, payload []byte) ([]byte, error) {
		value, err := decodeExactly(payload)
		if err != nil {
			return nil, refuse("--jq: %v", err)
		}
		limited, cancel := context.WithTimeout(ctx, patchTime)
		defer cancel()
		result, err := single(code.RunWithContext(limited, value))
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case limited.Err() != nil:
			return nil, refuse("--jq: the program takes longer than %v", patchTime)
		case err != nil:
			return nil, refuse("--jq: %v", err)
		}
		return gojq.Marshal(result)
	}, nil
}

func single(results gojq.Iter) (any, error) {
	result, ok := results.Next()
	if !ok {
		return nil, errors.New("the program has no result")
	}
	if err, failed := result.(error); failed {
		return nil, err
	}
	switch next, more := results.Next(); err := next.(type) {
	case error:
		return nil, err
	default:
		if more {
			return nil, errors.New("the program has more than one result")
		}
	}
	return result, nil
}

// decodeExactly decodes a JSON value. jq stores whole numbers of any size, and other numbers as float64.
// decodeExactly refuses a number that float64 would change.
func decodeExactly(payload []byte) (value any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(payload))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		return nil, errors.New("the payload is not JSON")
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("the payload is more than one JSON value")
	}
	return value, checkNumbers(value)
}

func checkNumbers(value any) error {
	switch v := value.(type) {
	case json.Number:
		if !isExact(v.String()) {
			return fmt.Errorf("the payload has the number %.40s, which jq would change", v)
		}
	case []any:
		for _, element := range v {
			if err := checkNumbers(element); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, member := range v {
			if err := checkNumbers(member); err != nil {
				return err
			}
		}
	}
	return nil
}

// exactDigits is the number of digits that float64 keeps of every decimal (DBL_DIG).
const exactDigits = 15

func isExact(number string) bool {
	if !strings.ContainsAny(number, ".eE") {
		return true
	}
	f, err := strconv.ParseFloat(number, 64)
	mantissa, _, _ := strings.Cut(strings.ToLower(number), "e")
	digits := strings.TrimLeft(strings.NewReplacer("-", "", ".", "").Replace(mantissa), "0")
	const least = 1e-300 // smaller numbers keep fewer digits
	return err == nil && len(digits) <= exactDigits && (digits == "" || f > least || f < -least)
}
