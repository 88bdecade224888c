package offline

// Progress says how far a run is.
type Progress struct {
	Doing string // the pass over the inputs
	// Bytes are done of Total. In the first pass they are those of the inputs, later those of what was compressed in
	// them. Total is Unknown for inputs that are read only once, if they are streams or compressed.
	Bytes, Total int64
	Lines        int64 // done by the run; 0 in passes that decide nothing
}

// passes over the inputs.
const (
	passReading  = "reading"
	passRenaming = "finding ids to rename"
	passDeciding = "deduplicating"
)

func (r *run) progress(doing string, bytes int64) {
	if r.Progress == nil {
		return
	}
	p := Progress{Doing: doing, Bytes: bytes, Total: r.total(doing)}
	if doing == passDeciding {
		p.Lines = r.done.Lines
	}
	r.Progress(p)
}

// total is how many bytes a pass reads.
func (r *run) total(doing string) (total int64) {
	for _, in := range r.Inputs {
		switch {
		case doing != passReading && !r.Forgets:
			total += in.content
		case in.Size == Unknown, doing != passReading && CompressionOf(in.Name) != NotCompressed:
			return Unknown
		default:
			total += in.Size
		}
	}
	return total
}
