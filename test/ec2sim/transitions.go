package ec2sim

import (
	"container/heap"
	"time"
)

// transition is a change of state that happens by itself at a time.
type transition struct {
	at  time.Time
	seq uint64
	do  func(now time.Time)
}

type transitions []transition

func (t transitions) Len() int { return len(t) }
func (t transitions) Less(i, j int) bool {
	return t[i].at.Before(t[j].at) || (t[i].at.Equal(t[j].at) && t[i].seq < t[j].seq)
}
func (t transitions) Swap(i, j int) { t[i], t[j] = t[j], t[i] }
func (t *transitions) Push(x any)   { *t = append(*t, x.(transition)) }
func (t *transitions) Pop() any {
	last := (*t)[len(*t)-1]
	*t = (*t)[:len(*t)-1]
	return last
}

// later schedules a change. It is made by the first call at or after its
// time, as if it had happened then, with the time that it was due.
func (r *region) later(now time.Time, delay time.Duration, do func(now time.Time)) {
	if delay <= 0 {
		do(now)
		return
	}
	r.seq++
	heap.Push(&r.due, transition{at: now.Add(delay), seq: r.seq, do: do})
}

// settle makes the changes that are due.
func (r *region) settle(now time.Time) {
	for len(r.due) > 0 && !r.due[0].at.After(now) {
		next := heap.Pop(&r.due).(transition)
		next.do(next.at)
	}
}
