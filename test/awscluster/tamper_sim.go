package awscluster

// simulatorTampers are what AWS itself does to instances. No call of the API
// brings them about, so they need a simulator that can be told to.
func simulatorTampers() []Tamper {
	return nil
}
