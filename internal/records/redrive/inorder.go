package redrive

import (
	"context"
	"iter"
	"sync"
)

// inOrder processes up to n items at the same time, and passes on the results in the order of the items. It holds at
// most n items. It returns after all work that it began has ended. The caller should end ctx then.
func inOrder[T, R any](
	ctx context.Context, n int, items iter.Seq2[T, error], do func(T) R, take func(R) error,
) error {
	if n <= 1 {
		for item, err := range items {
			if err != nil {
				return err
			}
			if err := take(do(item)); err != nil {
				return err
			}
		}
		return ctx.Err()
	}
	results := make(chan chan R, n-1)
	stop := make(chan struct{})
	var broken error
	var all sync.WaitGroup
	defer all.Wait()
	defer close(stop)
	all.Go(func() {
		defer close(results)
		for item, err := range items {
			if err != nil {
				broken = err
				return
			}
			result := make(chan R, 1)
			select {
			case results <- result:
			case <-stop:
				return
			}
			all.Go(func() { result <- do(item) })
		}
	})
	for result := range results {
		if err := take(<-result); err != nil {
			return err
		}
	}
	if broken != nil {
		return broken
	}
	return ctx.Err()
}
