# make test is what every change has to pass; its stages live in .ci/stages.

BENCH    ?= .
FUZZTIME ?= 10s

.PHONY: test lint bench bench-owners build fuzz

test:
	@.ci/stages all

lint:
	@.ci/stages lint

# Without cgo the program needs no dynamic linker, and a scope's bootstrap, which is
# this program again, starts in a millisecond less.
build:
	CGO_ENABLED=0 go build -trimpath -o bin/corral ./cmd/corral

bench:
	go test -run '^$$' -bench '$(BENCH)' -benchmem ./...

# What owners cost, in hosts that have them. Needs root.
bench-owners:
	CGO_ENABLED=0 go test -c -o bin/bench.test ./providers/local
	@set -e; cd providers/local; for session in login user-manager; do echo "== $$session"; \
		../../internal/testhost/testhost run --session=$$session -- ../../bin/bench.test \
			-test.run '^$$' -test.bench 'Spawn|Kill|Empty' -test.benchtime 60x; done

# go test fuzzes one target per run, so each target gets its own FUZZTIME.
fuzz:
	@set -e; for pkg in $$(go list ./...); do \
		for target in $$(go test -list '^Fuzz' $$pkg | grep '^Fuzz' || :); do \
			echo "== $$pkg $$target"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$pkg; \
		done; \
	done
