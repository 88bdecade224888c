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
	"github.com/oncebox/oncebox/internal/shared/durable"
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
	codesPerRead = 1000      // codes that are looked up together
)

func (generateCommand) Help() string {
	return fmt.Sprintf(`Makes random codes from the cryptographic source of the operating system. No code is in the file twice, and the campaign
knew none of them when it was asked. The random characters are %s: none looks like another, and
there are no vowels, so that no code is a word.

The chance that one guess is one of the codes is their number divided by the number of codes of the pattern. The command
prints it, and refuses a pattern with a greater chance than 1 in %s. A program that tries 100 codes a second
then finds one in about 3 hours: limit the tries where codes are used. Codes of one pattern in several files add up: the
command counts the codes of this file only. Enough are

  6 random characters  for  up to        %s codes
  7                                   %s
  8                                  %s
  9                               %s

The file appears whole, and a file that exists is never written over. If the command stops before, it leaves no codes,
and nothing was changed; a killed command may leave a file named .FILE-*. With --load the same items are loaded as
"oncebox load CAMPAIGN FILE" does. If the load stops, that command goes on, and this one refuses the file. Codes in a file
are not reserved: load it before you give codes away, and check that its first load prints "known 0". A known
code is in another file, too.

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
		return cli.WithHint(err, fmt.Sprintf("`oncebox load %s %s` loads the codes, and goes on where a load stopped.", c.Campaign, cli.ShellWord(c.File)))
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
	case c.File == "-" || c.File == "":
		return cli.BadUsage(fmt.Errorf("the codes need a file with a name, which %q is not", c.File), "")
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
	return c.codes(rand.Reader, progress, func(part []string) (unknown []string, err error) {
		places, err := b.EndedItems(ctx, c.Campaign, part)
		for i, place := range places {
			if place == itembank.PlaceUnknown {
				unknown = append(unknown, part[i])
			}
		}
		return unknown, err
	})
}

// codes makes different codes, and replaces those that are known. It looks up at most twice as many codes as it makes,
// and a few more.
func (c generateCommand) codes(
	random io.Reader, progress itembank.Progress, unknown func([]string) ([]string, error),
) (codes []string, err error) {
	const few = 8
	from, seen := bufio.NewReader(random), make(map[string]bool, c.Count)
	for thrown := 0; len(codes) < c.Count; {
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
		good, err := unknown(part)
		if err != nil {
			return nil, err
		}
		codes, thrown = append(codes, good...), thrown+len(part)-len(good)
		if thrown > len(codes)+few {
			return nil, cli.BadUsage(
				fmt.Errorf("--pattern %q: %s knows too many codes of this pattern", c.Pattern, c.Campaign),
				"Use a pattern with more ?, or with another beginning.",
			)
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

// writeFile makes the codes and then the file, which has all codes as soon as it has its name. A file that exists is
// never replaced.
func (c generateCommand) writeFile(makeCodes func() ([]string, error)) (err error) {
	if _, err := os.Lstat(c.File); err == nil {
		return c.exists("")
	}
	file, err := os.CreateTemp(filepath.Dir(c.File), "."+filepath.Base(c.File)+"-*")
	if err != nil {
		return cli.BadUsage(cli.FileError(c.File, err), "")
	}
	defer func() { err = errors.Join(err, os.Remove(file.Name())) }()
	codes, err := makeCodes()
	if err != nil {
		return errors.Join(err, file.Close())
	}
	_, err = file.WriteString(strings.Join(codes, "\n") + "\n")
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return cli.FileError(c.File, err)
	}
	switch err := os.Link(file.Name(), c.File); {
	case errors.Is(err, os.ErrExist):
		return c.exists("; somebody made it meanwhile, and the codes were thrown away")
	case err != nil:
		const hint = "The file system must have hard links, with which no file is written over. Choose another folder."
		return cli.BadUsage(fmt.Errorf("%s: %w", c.File, linkReason(err)), hint)
	}
	return durable.SyncFolder(filepath.Dir(c.File))
}

// exists returns the error for a file that is not written over.
func (c generateCommand) exists(more string) error {
	const hint = "Choose another name. If an earlier command made it for %s: `oncebox load %s %s` loads its codes."
	return cli.BadUsage(fmt.Errorf("%s exists, and is not written over%s", c.File, more),
		fmt.Sprintf(hint, c.Campaign, c.Campaign, cli.ShellWord(c.File)))
}

// linkReason returns the reason of an error of os.Link.
func linkReason(err error) error {
	if link, ok := errors.AsType[*os.LinkError](err); ok {
		return link.Err
	}
	return err
}
