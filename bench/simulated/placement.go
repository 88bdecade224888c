package simulated

// Placement is how full partitions are at a rate of claims, because of the places of the partition keys alone.
type Placement struct {
	Bank   float64 // the fullest partition of the bank, if each shard gives as many items; 1 is its rate
	Claims float64 // the fullest partition of claims, if each of their keys gets as many
	Spread float64 // every partition that has a shard of the bank, if Banks spread the load over them perfectly
}

// Possible reports whether the partitions can serve the load if Banks choose shards well. Banks cannot choose the
// claim's partition.
func (p Placement) Possible() bool { return p.Claims <= 1 && p.Spread <= 1 }

// Placement returns how full the partitions of a model with Limits are at a rate of claims a second.
func (m Model) Placement(rate float64) Placement {
	units := rate * takeUnits / m.Limits.Writes
	bank, used := m.keys("bank", m.Shards, shardKey)
	claims, _ := m.keys("claims", m.Limits.ClaimKeys, claimKey)
	return Placement{
		Bank:   units * float64(bank) / float64(m.Shards),
		Claims: units * float64(claims) / float64(m.Limits.ClaimKeys),
		Spread: units / float64(used),
	}
}

// keys returns the number of keys on the partition with the most keys, and the number of partitions with a key.
func (m Model) keys(name string, number int, key func(int) string) (most, used int) {
	t := &table{name: name, seed: m.Seed, partitions: make([]partition, m.Limits.Partitions)}
	keys := make([]int, m.Limits.Partitions)
	for n := range number {
		place := t.place(key(n))
		if keys[place]++; keys[place] == 1 {
			used++
		}
		most = max(most, keys[place])
	}
	return most, used
}
