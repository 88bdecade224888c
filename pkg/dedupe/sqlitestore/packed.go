package sqlitestore

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/oncebox/oncebox/internal/shared/sqlite"
)

// maxRows is the largest number of entries in a statement.
const maxRows = 250

// packed is the form in which insertEntries and replaceEntries get entries: a blob with a row for each entry. Binding
// eight parameters for each entry would take a large part of the time.
type packed struct {
	rows  []byte
	texts []byte
}

// The columns in a row, by the position of their first byte, from 1. A number is a decimal of 20 bytes with leading
// spaces, or zero bytes for NULL. For a text, the row has its position among the texts, from 1, and its length, as
// decimals of 10 bytes each.
const (
	slotAt    = 1
	ownerAt   = 17
	contentAt = 33
	arrivalAt = 49
	purgeAt   = 69
	recordAt  = 89 // the owner in the form for people
	versionAt = 109
	rowAt     = 129 // in the table
	rowSize   = 148
)

var (
	// numbers are the indexes of the first rows. The first parameter is how many. "0 +" hides it from the planner,
	// which would otherwise plan anew for each number.
	numbers = func() string {
		var list strings.Builder
		for i := range maxRows {
			fmt.Fprintf(&list, ", (%d)", i)
		}
		return "(SELECT column1 AS i FROM (VALUES " + list.String()[2:] + ") LIMIT 0 + ?1) AS numbers"
	}()

	// The entries of the slots in ?3, with the indexes of the slots. Each column costs time: done is the last bit of the
	// purge time, and owners from ?4 to ?5 are left out.
	selectEntries = selectEntriesIn("recent") + " UNION ALL " + selectEntriesIn("merged")

	// ?3 has the entries, ?4 their texts, and ?5 is the row of the first one.
	insertEntries = `INSERT INTO entry (row, scope, slot, owner, content, arrival, purge_at, record, version) SELECT
		?5 + i, ?2, ` + blob(slotAt, 16) + `, ` + blob(ownerAt, 16) + `, ` + blob(contentAt, 16) + `, ` +
		number(arrivalAt) + `, ` + number(purgeAt) + `, ` + text(recordAt) + `, ` + text(versionAt) + ` FROM ` + numbers

	replaceEntries = `UPDATE entry SET
			owner = ` + blob(ownerAt, 16) + `, content = ` + blob(contentAt, 16) + `,
			arrival = ` + number(arrivalAt) + `, purge_at = ` + number(purgeAt) + `,
			record = ` + text(recordAt) + `, version = ` + text(versionAt) + `, done = NULL, hold = NULL
		FROM ` + numbers + ` WHERE row = ` + number(rowAt) + ` AND slot = ` + blob(slotAt, 16) + ` AND scope = ?2`
)

func selectEntriesIn(places string) string {
	return `SELECT i, entry.row, owner, content, 2 * coalesce(purge_at, 0) + coalesce(done, 0),
			CASE WHEN record >= ?4 AND record < ?5 THEN '' ELSE record END, hold
		FROM ` + numbers + ` CROSS JOIN ` + places + ` ON place = substr(?3, 1 + 16 * i, 6)
		CROSS JOIN entry ON entry.row = ` + places + `.row AND slot = substr(?3, 1 + 16 * i, 16) AND scope = ?2`
}

// blob returns the SQL expression for some bytes of row i.
func blob(at, size int) string { return fmt.Sprintf("substr(?3, %d + %d * i, %d)", at, rowSize, size) }

func number(at int) string { return "CAST(nullif(" + blob(at, 20) + ", zeroblob(20)) AS INTEGER)" }

func text(at int) string {
	return "CAST(substr(?4, CAST(" + blob(at, 10) + " AS INTEGER), CAST(" + blob(at+10, 10) + " AS INTEGER)) AS TEXT)"
}

// pack packs entries. The texts begin with a byte that belongs to no text: SQLite takes a part of an empty blob for
// NULL.
func pack(requests []request) *packed {
	p := &packed{rows: make([]byte, 0, len(requests)*rowSize), texts: []byte{0}}
	for _, r := range requests {
		p.add(r)
	}
	return p
}

func (p *packed) add(r request) {
	e := r.Entry
	is := e.Existing()
	p.rows = append(append(append(p.rows, r.slot[:]...), is.Owner[:]...), is.Content[:]...)
	p.addNumber(20, sqlite.Millis(e.Arrival))
	p.addNumber(20, seconds(e.PurgeAt))
	p.addText(e.Owner.String())
	p.addText(e.Version)
	p.addNumber(20, r.row)
}

// addNumber adds an integer, or nil.
func (p *packed) addNumber(width int, n any) {
	var decimal []byte
	fill := byte(0)
	if n, ok := n.(int64); ok {
		var space [20]byte
		decimal, fill = strconv.AppendInt(space[:0], n, 10), ' '
	}
	for range width - len(decimal) {
		p.rows = append(p.rows, fill)
	}
	p.rows = append(p.rows, decimal...)
}

func (p *packed) addText(text string) {
	p.addNumber(10, int64(len(p.texts)+1))
	p.addNumber(10, int64(len(text)))
	p.texts = append(p.texts, text...)
}
