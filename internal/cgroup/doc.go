// Package cgroup owns ranges that are control groups: directories of a cgroup v2
// hierarchy that one launch has to itself. All native Linux owners share it.
//
// The kernel ends such a range atomically (cgroup.kill, Linux 5.14) and says
// whether anything lives in it (cgroup.events), with everything that was forked,
// daemonised or moved into directories of its own since.
package cgroup
