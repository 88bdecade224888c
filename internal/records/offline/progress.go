package offline

// Progress is the progress of a run.
type Progress struct {
	Doing string // the pass over the inputs
	// Bytes of Total are done. In the first pass they are bytes of the inputs, later they are bytes of the unpacked
	// content. Total is Unknown for inputs that are read only once, if they are streams or compressed.
	Bytes, Total int64
	Lines        int64 // lines that the run has done; 0 in passes that decide nothing
}

// These are the passes over the inputs.
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

// total returns the number of bytes that a pass reads.
func (r *run) total(doing string) (total int64) {
	for _, in := range r.Inputs {
		switch {
		case doing != passReading && !r.Forgets:
			total += in.content
		case in.Size == Unknown, doing != passReading && (CompressionOf(in.Name) != NotCompressed || in.Records != ""):
			return Unknown
		default:
			total += in.Size
		}
	}
	return total
}
