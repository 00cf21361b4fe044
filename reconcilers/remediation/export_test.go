package remediation

// Underway counts the changes that are kept.
func (c *Controller) Underway() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.underway)
}
