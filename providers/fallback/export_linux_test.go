package fallback

// ParseStat is parseStat's session and whether the process is dead.
func ParseStat(data string) (session int, dead bool, err error) {
	s, err := parseStat([]byte(data))
	return s.session, s.dead(), err
}

// State is a process's state in /proc; "" if there is none.
func State(pid int) string {
	s, err := readStat(pid)
	if err != nil {
		return ""
	}
	return string(s.state)
}
