package report

import (
	"fmt"
	"io"
	"testing"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers"
)

// BenchmarkFormats writes ten thousand machines, of which none drifted like
// another and every second could not be compared for a reason of its own.
func BenchmarkFormats(b *testing.B) {
	in := BuildInput{Now: at, Clusters: sample().Clusters[:1]}
	for i := range 10_000 {
		name := fmt.Sprintf("m-%05d", i)
		mods := with(changed("/instanceType", providers.String("a"), providers.String(name)))
		if i%2 == 1 {
			mods = status(detector.NotChecked, fmt.Sprintf("request %d failed", i))
		}
		in.Decisions = append(in.Decisions, decision("eu-1", awsMachine("eu-1", name), resource("aws", "Instance", "i-"+name, name),
			pool("MachineDeployment/md"), observing(), mods))
	}
	r := Build(in)
	for _, f := range Formats() {
		b.Run(f, func(b *testing.B) {
			for b.Loop() {
				if err := Render(io.Discard, r, Format(f), Style{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
