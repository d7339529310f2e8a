package process

import (
	"encoding/binary"
	"os"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

func TestParseSyscall(t *testing.T) {
	for _, c := range []struct {
		name, data string
		number     int
		first, sp  uint64
		inCall     bool
		bad        bool
	}{
		{name: "read", data: "0 0x0 0x7ffe8ddf1fd0 0x2000 0x0 0x0 0x0 0x7ffe8ddf1f78 0x7fd4fffec2ad\n", sp: 0x7ffe8ddf1f78, inCall: true},
		{name: "a large argument", data: "232 0xffffffffffffffff 0x0 0x1 0x0 0x0 0x0 0xffffffffffffff00 0x1", number: 232, first: ^uint64(0), sp: 0xffffffffffffff00, inCall: true},
		{name: "running", data: "running\n"},
		{name: "waiting for something else", data: "-1 0x7ffe8ddf1f78 0x7fd4fffec2ad\n"},
		{name: "empty", bad: true},
		{name: "cut", data: "0 0x0 0x7ffe8ddf1fd0", bad: true},
		{name: "longer", data: "0 0x0 0x0 0x0 0x0 0x0 0x0 0x0 0x0 0x0", bad: true},
		{name: "no number", data: "x 0x0 0x0 0x0 0x0 0x0 0x0 0x0 0x0", bad: true},
		{name: "no argument", data: "0 fd 0x0 0x0 0x0 0x0 0x0 0x0 0x0", bad: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			line, inCall, err := parseSyscall([]byte(c.data))
			if (err != nil) != c.bad || inCall != c.inCall {
				t.Fatalf("in a call: %v, %v", inCall, err)
			}
			if inCall && (line.number != c.number || line.args[0] != c.first || line.sp != c.sp) {
				t.Errorf("got %+v", line)
			}
		})
	}
}

func FuzzParseSyscall(f *testing.F) {
	f.Add([]byte("0 0x0 0x7ffe8ddf1fd0 0x2000 0x0 0x0 0x0 0x7ffe8ddf1f78 0x7fd4fffec2ad\n"))
	f.Add([]byte("running"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, inCall, err := parseSyscall(data); inCall && err != nil {
			t.Errorf("in a call, and %v", err)
		}
	})
}

func TestPolledForInput(t *testing.T) {
	var data []byte
	for _, entry := range []struct {
		fd     int32
		events uint16
	}{{3, unix.POLLIN}, {0, unix.POLLOUT}, {-1, unix.POLLIN}, {7, unix.POLLIN | unix.POLLHUP}, {9, 0}} {
		data = binary.NativeEndian.AppendUint32(data, uint32(entry.fd))
		data = binary.NativeEndian.AppendUint16(data, entry.events)
		data = append(data, 0xff, 0xff) // what it returned last
	}
	if got := polledForInput(append(data, 1, 2, 3)); !slices.Equal(got, []int{3, 7}) {
		t.Errorf("got %v, want 3 and 7", got)
	}
}

func TestSelected(t *testing.T) {
	data := binary.NativeEndian.AppendUint64(nil, 1|1<<5|1<<63)
	data = binary.NativeEndian.AppendUint64(data, 1<<2)
	for n, want := range map[int][]int{0: nil, 1: {0}, 6: {0, 5}, 64: {0, 5, 63}, 66: {0, 5, 63}, 67: {0, 5, 63, 66}, 128: {0, 5, 63, 66}} {
		if got := selected(data, n); !slices.Equal(got, want) {
			t.Errorf("of %d: %v, want %v", n, got, want)
		}
	}
}

func TestEpollTargets(t *testing.T) {
	data := "pos:\t0\nflags:\t02\nmnt_id:\t15\nino:\t1057\n" +
		"tfd:        0 events:       19 data:                0  pos:0 ino:5 sdev:18\n" +
		"tfd:        4 events:        4 data:                4  pos:0 ino:5 sdev:18\n" +
		"tfd:       12 events: 8000001b data: ffffffffffffffff  pos:0 ino:5 sdev:18\n" +
		"tfd:        x events:        1\ntfd: 9\n"
	if got := epollTargets([]byte(data)); !slices.Equal(got, []int{0, 12}) {
		t.Errorf("got %v, want 0 and 12", got)
	}
}

func TestUnpackDevice(t *testing.T) {
	for packed, want := range map[int]uint64{
		0x8801:   unix.Mkdev(136, 1),
		0x880f:   unix.Mkdev(136, 15),
		0x108801: unix.Mkdev(136, 0x101),
	} {
		if got := unpackDevice(packed); got != want {
			t.Errorf("%#x: %#x, want %#x", packed, got, want)
		}
	}
	// What does not fit in 31 bits is printed as a negative number.
	minor := uint32(0x80012)
	n := int32(minor&0xff | 136<<8 | (minor&^0xff)<<12)
	if got := unpackDevice(int(n)); got != unix.Mkdev(136, minor) {
		t.Errorf("%d: %#x, want %#x", n, got, unix.Mkdev(136, minor))
	}
}

// The kernel's numbering is this program's, where no emulator is between them.
func TestKernelABI(t *testing.T) {
	if _, err := os.ReadFile("/proc/thread-self/syscall"); err != nil {
		t.Skip(err)
	}
	if got := kernelABI(); got != abis[runtime.GOARCH] {
		t.Errorf("got %+v, want that of %s", got, runtime.GOARCH)
	}
}

// The table of this architecture says what its system calls are.
func TestCallNumbers(t *testing.T) {
	table := abis[runtime.GOARCH]
	if table == nil {
		t.Skipf("%s has no table", runtime.GOARCH)
	}
	for number, want := range map[int]callKind{
		unix.SYS_READ: callRead, unix.SYS_READV: callRead, unix.SYS_PREAD64: callRead, unix.SYS_PREADV: callRead, unix.SYS_PREADV2: callRead,
		unix.SYS_PPOLL: callPoll, unix.SYS_PSELECT6: callSelect, unix.SYS_EPOLL_PWAIT: callEpoll, unix.SYS_EPOLL_PWAIT2: callEpoll,
		unix.SYS_WRITE: 0, unix.SYS_FUTEX: 0,
	} {
		if got := table.calls[number]; got != want {
			t.Errorf("call %d is of kind %d, want %d", number, got, want)
		}
	}
	if table.restart != unix.SYS_RESTART_SYSCALL || ringCall != unix.SYS_IO_URING_ENTER || table.read != unix.SYS_READ {
		t.Errorf("got %d, %d and %d", table.restart, ringCall, table.read)
	}
}

func TestParseSignals(t *testing.T) {
	status := "Name:\tSigIgn: x\nSigPnd:\t0000000000010000\nShdPnd:\t0000000000000002\nSigBlk:\t0000000000010000\nSigIgn:\t0000000000384004\nSigCgt:\t000000004b813efb\n"
	got, err := parseSignals([]byte(status))
	if err != nil || !got.Ignores(unix.SIGTERM) || got.Ignores(unix.SIGHUP) || !got.Catches(unix.SIGHUP) || got.Catches(unix.SIGKILL) {
		t.Errorf("got %+v, %v", got, err)
	}
	if got.Pending != 1<<16|1<<(unix.SIGINT-1) || got.Blocked != 1<<16 {
		t.Errorf("got %+v", got)
	}
	for _, bad := range []string{"", "SigIgn:\t0\n", "SigIgn:\tx\nSigCgt:\t0\n"} {
		if got, err := parseSignals([]byte(bad)); err == nil {
			t.Errorf("%q: %+v", bad, got)
		}
	}
}
