package sqlitestore
import ("testing";"fmt")
func BenchmarkTake(b *testing.B) {
	t := &testing.T{}
	_ = t
	s, err := Create(b.Context(), b.TempDir()+"/x.db"); if err != nil {b.Fatal(err)}
	defer s.Close()
	for i := 0; b.Loop(); i++ {
		if _, err := s.SetMode(b.Context(), fmt.Sprint(i), "x"); err != nil {b.Fatal(err)}
	}
}
