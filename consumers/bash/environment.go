package bash

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/corral-world/corral/seam"
)

// Environment is the managed environment: facts about the harness that scripts
// can rely on, under names that begin with CORRAL_. Contributors declare their
// names; values are asked for anew for each script. Nothing displaces them: not
// what the harness inherited, not what a request sets. A declared name whose
// contributor gives no value is removed.
//
// All methods may be called concurrently. The zero Environment is not usable.
type Environment struct {
	mu           sync.Mutex
	contributors map[string]Contributor // by name
}

// A Contributor gives values to the names that it declares.
type Contributor struct {
	Name string
	// Keys describes each variable: CORRAL_[A-Z][A-Z0-9_]*, and not one of
	// another contributor.
	Keys map[string]string
	// Values returns values for some of Keys. An error, or a name that was not
	// declared, fails the script before it starts.
	Values func(ctx context.Context, owner string) (map[string]string, error)
}

// NewEnvironment returns an Environment with what is built in: CORRAL_SHELL is
// 1, and CORRAL_OWNER the owner of the request, if it has one.
func NewEnvironment() *Environment {
	e := &Environment{contributors: make(map[string]Contributor)}
	e.contributors["corral"] = Contributor{
		Name: "corral",
		Keys: map[string]string{
			"CORRAL_SHELL": "set to 1 in every script that Corral runs",
			"CORRAL_OWNER": "the owner of the script's jobs, where it has one",
		},
		Values: func(_ context.Context, owner string) (map[string]string, error) {
			values := map[string]string{"CORRAL_SHELL": "1"}
			if owner != "" {
				values["CORRAL_OWNER"] = owner
			}
			return values, nil
		},
	}
	return e
}

var managedKey = regexp.MustCompile(`^CORRAL_[A-Z][A-Z0-9_]*$`)

// Contribute adds a contributor; remove takes it, and no other of its name, away
// again. The error names
// what is wrong: a name or key that another has, a key that is none, a blank
// description.
func (e *Environment) Contribute(c Contributor) (remove func(), err error) {
	refuse := func(field, problem string) (func(), error) {
		return nil, &seam.OpError{Op: "contribute environment", Code: seam.CodeInvalid,
			Err: &seam.FieldError{Field: field, Problem: problem}}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case c.Name == "":
		return refuse("Name", "is empty")
	case len(c.Keys) == 0:
		return refuse("Keys", "is empty")
	case c.Values == nil:
		return refuse("Values", "is nil")
	}
	if _, taken := e.contributors[c.Name]; taken {
		return refuse("Name", fmt.Sprintf("is taken: %q", c.Name))
	}
	for key, description := range c.Keys {
		if !managedKey.MatchString(key) {
			return refuse("Keys", fmt.Sprintf("holds %q, which is not CORRAL_ and capitals", key))
		}
		if strings.TrimSpace(description) == "" {
			return refuse("Keys", fmt.Sprintf("does not describe %s", key))
		}
		for _, other := range e.contributors {
			if _, taken := other.Keys[key]; taken {
				return refuse("Keys", fmt.Sprintf("holds %s, which is %q's", key, other.Name))
			}
		}
	}
	e.contributors[c.Name] = c
	return sync.OnceFunc(func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.contributors, c.Name)
	}), nil
}

// Describe returns every declared variable with its description.
func (e *Environment) Describe() map[string]string {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := make(map[string]string)
	for _, c := range e.contributors {
		for key, description := range c.Keys {
			all[key] = description
		}
	}
	return all
}

// Snapshot asks every contributor, and returns the environment in order of
// names: each declared one is either set or removed.
func (e *Environment) Snapshot(ctx context.Context, owner string) (seam.Env, error) {
	e.mu.Lock()
	contributors := make([]Contributor, 0, len(e.contributors))
	for _, c := range e.contributors {
		contributors = append(contributors, c)
	}
	e.mu.Unlock()

	var env seam.Env
	for _, c := range contributors {
		values, err := c.Values(ctx, owner)
		if err != nil {
			return nil, fmt.Errorf("environment of %q: %w", c.Name, err)
		}
		for key := range values {
			if _, declared := c.Keys[key]; !declared {
				return nil, fmt.Errorf("environment of %q: %s is not declared", c.Name, key)
			}
		}
		for key := range c.Keys {
			if value, ok := values[key]; ok {
				env = append(env, seam.Set(key, value))
			} else {
				env = append(env, seam.Unset(key))
			}
		}
	}
	slices.SortFunc(env, func(a, b seam.EnvVar) int { return strings.Compare(a.Name, b.Name) })
	return env, nil
}
