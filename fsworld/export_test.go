package fsworld

// What has to be tested where it can't be reached: pure functions of other
// platforms, leaves behind a look that lets nothing pass, the classification
// of errors that a test can't provoke.
var (
	PosixURI      = posixURI
	WindowsURI    = windowsURI
	StripVerbatim = stripVerbatim
	CodeOf        = codeOf
	OpenFile      = openFile
	OpenDir       = openDir
	InterruptOn   = interruptOn
)
