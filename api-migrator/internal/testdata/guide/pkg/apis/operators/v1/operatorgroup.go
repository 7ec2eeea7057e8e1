// Copyright 2019 The Test Operator Authors

package v1

// operatorGroupFinalizer is set on groups that own something.
const operatorGroupFinalizer = "finalizer.operatorgroups.operators.example.com"

// EnsureFinalizer makes sure that the object carries the finalizer.
func (g *OperatorGroup) EnsureFinalizer() {
	ensureFinalizer(&g.ObjectMeta, operatorGroupFinalizer)
}

// Failed reports whether the group has given up.
func (g *OperatorGroup) Failed() bool {
	return g.Status.CurrentPhase.Phase.Name == PhaseFailed
}
