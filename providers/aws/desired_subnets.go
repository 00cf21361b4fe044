package aws

type subnetView struct{}

func (w *wants) network(any) {}
