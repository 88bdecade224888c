package claims

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/pkg/itembank"
)

type generateCommand struct {
	Campaign string `arg:"" help:"The campaign that the codes are for."`
	File     string `arg:"" help:"The new file for the codes, one a line. A file that exists is never written over."`
	Pattern  string `required:"" help:"The form of a code: each ? becomes a random character. Other characters are a-z, A-Z, 0-9, - and _." placeholder:"'SAVE-????-????'"`
	Count    int    `required:"" help:"The number of codes, up to 1,000,000." placeholder:"N"`
	Load     bool   `help:"Load the file into the campaign, too."`
	rateFlag
}

// codeLetters are the random characters of codes. Of letters and digits that people take for each other, such as 0 and
// O, 1 and I, 5 and S, 2 and Z, 8 and B, 6 and G, U and V, at most one is among them. Without vowels no code is a word.
const codeLetters = "CDFHJKMPQRTVWXY2346789"

const (
	leastGuesses = 1_000_000 // on average, until one guess is a code; see Help
	maxCodes     = 1_000_000 // they are in memory
	maxPattern   = 64        // bytes
	codesPerRead = 1000      // codes that are looked up, and replaced, together
)

func (generateCommand) Help() string {
	return fmt.Sprintf(`Makes random codes from the cryptographic source of the operating system. No code is in the file twice, and the campaign
knew none of them when it was asked. The random characters are %s: none looks like another, and
there are no vowels, so that no code is a word.

The chance that one guess is one of the codes is their number divided by the number of codes of the pattern. The command
prints it, and refuses a pattern with a greater chance than 1 in %s. A program that tries 100 codes a second
then finds one in about 3 hours: limit the tries where codes are used. Codes of one pattern in several files add up: the
command counts those of this file only. Enough are

  6 random characters  for  up to        %s codes
  7                                   %s
  8                                  %s
  9                               %s

The file appears whole. If the command stops before, it leaves no codes, and nothing was changed; a killed command may
leave an empty file, and one named .FILE-*. With --load the same items are loaded as "oncebox load CAMPAIGN FILE" does. If
the load stops, that command goes on, and this one refuses the file. Codes in a file are not reserved: load it before you
give codes away, and check that load prints "known 0".

Examples:
  oncebox generate spring codes.txt --pattern 'SAVE-????-????' --count 20000
  oncebox generate spring more.txt --pattern '????-????-????' --count 500000 --load --rate 200`,
		codeLetters, cli.WithCommas(leastGuesses), enoughFor(6), enoughFor(7), enoughFor(8), cli.WithCommas(maxCodes))
}

// enoughFor is the number of codes for which n random characters are enough.
func enoughFor(n int) string { return cli.WithCommas(int64(codesOf(n) / leastGuesses)) }

// codesOf is the number of codes with n random characters.
func codesOf(n int) float64 { return math.Pow(float64(len(codeLetters)), float64(n)) }

var codePattern = regexp.MustCompile(`^[A-Za-z0-9_?-]+$`)

func (c generateCommand) Run(ctx context.Context, a *cli.App) error {
	if err := c.check(); err != nil {
		return err
	}
	err := a.WithBank(ctx, c.Campaign, func(b *itembank.Operator) error {
		return c.writeFile(func() ([]string, error) { return c.unknownCodes(ctx, b, a.Progress("looking up")) })
	}, c.option())
	if err != nil {
		return err
	}
	oneIn := int64(min(codesOf(c.random())/float64(c.Count), 1e15))
	text := fmt.Sprintf("made %s in %s; the chance to guess one of them is at most 1 in %s",
		cli.Quantity(int64(c.Count), "code"), c.File, cli.WithCommas(oneIn))
	if !c.Load {
		return a.Print(generateJSON{c.File, c.Count, oneIn}, text)
	}
	a.Remark("%s", text)
	if err := (loadCommand{Campaign: c.Campaign, File: c.File, rateFlag: c.rateFlag}).Run(ctx, a); err != nil {
		return cli.WithHint(err, fmt.Sprintf("`oncebox load %s %s` loads the codes, and goes on where a load stopped.", c.Campaign, c.File))
	}
	return nil
}

// generateJSON is the result of generate.
type generateJSON struct {
	File  string `json:"file"`
	Codes int    `json:"codes"`
	OneIn int64  `json:"guess_one_in"` // a guess is a code at most once in so many
}

func (c generateCommand) random() int { return strings.Count(c.Pattern, "?") }

func (c generateCommand) check() error {
	switch {
	case c.File == "-":
		return cli.BadUsage(errors.New("the codes need a file with a name, which - is not"), "")
	case c.Count < 1 || c.Count > maxCodes:
		return cli.BadUsage(fmt.Errorf("--count %d: must be from 1 to %s", c.Count, cli.WithCommas(maxCodes)), "")
	case len(c.Pattern) > maxPattern || !codePattern.MatchString(c.Pattern):
		return cli.BadUsage(
			fmt.Errorf("--pattern %q: must be 1 to %d of the characters a-z, A-Z, 0-9, -, _ and ?", c.Pattern, maxPattern), "",
		)
	case codesOf(c.random()) < leastGuesses*float64(c.Count):
		needed := int(math.Ceil(math.Log(leastGuesses*float64(c.Count)) / math.Log(float64(len(codeLetters)))))
		return cli.BadUsage(
			fmt.Errorf("--pattern %q: %s with %s could be guessed: more than 1 guess in %s would be right",
				c.Pattern, cli.Quantity(int64(c.Count), "code"), cli.Quantity(int64(c.random()), "random character"), cli.WithCommas(leastGuesses)),
			fmt.Sprintf("Use at least %d times ? in the pattern.", needed),
		)
	}
	return nil
}

// unknownCodes makes codes that the campaign does not know.
func (c generateCommand) unknownCodes(ctx context.Context, b *itembank.Operator, progress itembank.Progress) ([]string, error) {
	return c.codes(rand.Reader, progress, func(part []string) (bool, error) {
		report, err := b.DryRun(ctx, c.Campaign, itembank.Items(part...))
		return report.Known > 0, err
	})
}

// codes makes different codes. It replaces all codes of a part if one of them is known. It looks up at most twice as many
// codes as it makes, and a few parts more.
func (c generateCommand) codes(
	random io.Reader, progress itembank.Progress, anyKnown func([]string) (bool, error),
) (codes []string, err error) {
	from, seen := bufio.NewReader(random), make(map[string]bool, c.Count)
	for kept, thrown := 0, 0; len(codes) < c.Count; {
		part := make([]string, 0, codesPerRead)
		for len(part) < min(codesPerRead, c.Count-len(codes)) {
			code, err := c.code(from)
			if err != nil {
				return nil, err
			}
			if !seen[code] {
				seen[code], part = true, append(part, code)
			}
		}
		known, err := anyKnown(part)
		switch {
		case err != nil:
			return nil, err
		case !known:
			kept, codes = kept+1, append(codes, part...)
		case thrown > kept+3:
			return nil, cli.BadUsage(
				fmt.Errorf("--pattern %q: %s knows too many codes of this pattern", c.Pattern, c.Campaign),
				"Use a pattern with more ?, or with another beginning.",
			)
		default:
			thrown++
		}
		if progress != nil {
			progress(int64(len(codes)), int64(c.Count))
		}
	}
	return codes, nil
}

// code makes a code. Each character is equally likely: bytes that would make some of them likelier are skipped.
func (c generateCommand) code(random io.ByteReader) (string, error) {
	code := []byte(c.Pattern)
	for i := range code {
		for code[i] == '?' {
			n, err := random.ReadByte()
			if err != nil {
				return "", err
			}
			if int(n) < 256-256%len(codeLetters) {
				code[i] = codeLetters[int(n)%len(codeLetters)]
			}
		}
	}
	return string(code), nil
}

// writeFile makes the codes and then the file. Until it is whole, the file is empty. So no command reads a part of the
// codes, and no two commands write one file. If somebody deletes the empty file, another command may make its own: only
// an empty file is replaced or removed.
func (c generateCommand) writeFile(makeCodes func() ([]string, error)) (err error) {
	file, err := os.OpenFile(c.File, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		const hint = "Choose another name. If an earlier command made it for %s: `oncebox load %s %s` loads its codes. " +
			"If it is empty, and no command is still making it, delete it."
		return cli.BadUsage(fmt.Errorf("%s exists, and is not written over", c.File), fmt.Sprintf(hint, c.Campaign, c.Campaign, c.File))
	}
	if err != nil {
		return cli.BadUsage(cli.FileError(c.File, err), "")
	}
	defer func() {
		if err != nil && isEmpty(c.File) {
			err = errors.Join(err, os.Remove(c.File))
		}
	}()
	if err := file.Close(); err != nil {
		return cli.FileError(c.File, err)
	}
	codes, err := makeCodes()
	if err != nil {
		return err
	}
	if !isEmpty(c.File) {
		return cli.BadUsage(
			fmt.Errorf("%s was deleted or written by somebody else meanwhile; the codes were thrown away", c.File), "Choose another name.",
		)
	}
	if err := replaceFile(c.File, strings.Join(codes, "\n")+"\n"); err != nil {
		return cli.FileError(c.File, err)
	}
	return nil
}

// isEmpty reports whether there is an empty file.
func isEmpty(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().IsRegular() && info.Size() == 0
}

// replaceFile replaces a file by another content, at one moment.
func replaceFile(path, content string) error {
	whole, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	_, err = whole.WriteString(content)
	if err == nil {
		err = whole.Sync()
	}
	if err = errors.Join(err, whole.Close()); err == nil {
		err = os.Rename(whole.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(whole.Name()))
	}
	return nil
}
