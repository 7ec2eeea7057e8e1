// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"os"
	"strings"
	"testing"

	lua "github.com/yuin/gopher-lua"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
)

// The health check that docs/install.md gives for Argo CD, run by the interpreter that Argo CD uses.
func TestArgoCDSeesTheHealthOfAMigration(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	_, script, _ := strings.Cut(string(page), "```lua\n")
	script, _, found := strings.Cut(script, "```\n")
	if !found {
		t.Fatal("docs/install.md has no health check")
	}
	const generation = 4
	for name, tt := range map[string]struct {
		phase v1alpha1.Phase
		of    int64 // metadata.generation that the conditions are about
		want  string
	}{
		"pending":                    {v1alpha1.PhasePending, generation, "Progressing: so it is"},
		"waiting":                    {v1alpha1.PhaseWaiting, generation, "Progressing: so it is"},
		"running":                    {v1alpha1.PhaseRunning, generation, "Progressing: so it is"},
		"paused":                     {v1alpha1.PhasePaused, generation, "Suspended: so it is"},
		"cancelled":                  {v1alpha1.PhaseCancelled, generation, "Suspended: so it is"},
		"succeeded":                  {v1alpha1.PhaseSucceeded, generation, "Healthy: so it is"},
		"failed":                     {v1alpha1.PhaseFailed, generation, "Degraded: so it is"},
		"succeeded, and asked again": {v1alpha1.PhaseSucceeded, generation - 1, "Progressing: so it is"},
		"not seen by the controller": {"", generation, "Progressing: Waiting for the controller"},
	} {
		m := v1alpha1.StorageVersionMigration{ObjectMeta: metav1.ObjectMeta{Generation: generation}}
		if tt.phase != "" {
			m.Status.State, m.Status.Summary = tt.phase, "so it is"
			m.Status.Conditions = conditions(nil, metav1.Now(), tt.of, tt.phase, "Reason", "so it is")
		}
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&m)
		if err != nil {
			t.Fatal(err)
		}
		if tt.phase == "" {
			delete(object, "status")
		}
		interpreter := lua.NewState()
		interpreter.SetGlobal("obj", luaOf(interpreter, object))
		if err := interpreter.DoString(script); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		health, ok := interpreter.Get(-1).(*lua.LTable)
		if !ok {
			t.Fatalf("%s: the script returns %v", name, interpreter.Get(-1))
		}
		got := health.RawGetString("status").String() + ": " + health.RawGetString("message").String()
		if got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
		interpreter.Close()
	}
}

// luaOf is a value of JSON as Lua has it.
func luaOf(l *lua.LState, value any) lua.LValue {
	switch value := value.(type) {
	case map[string]any:
		table := l.NewTable()
		for name, field := range value {
			table.RawSetString(name, luaOf(l, field))
		}
		return table
	case []any:
		table := l.NewTable()
		for _, element := range value {
			table.Append(luaOf(l, element))
		}
		return table
	case string:
		return lua.LString(value)
	case bool:
		return lua.LBool(value)
	case int64:
		return lua.LNumber(value)
	case float64:
		return lua.LNumber(value)
	default:
		return lua.LNil
	}
}
