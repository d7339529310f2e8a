// Package systemd asks a systemd manager, the user's or the system's, for
// transient units, over D-Bus and without a helper program.
package systemd
