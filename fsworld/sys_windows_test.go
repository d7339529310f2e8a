package fsworld_test

const lexical = true

var mkfifo func(path string) error // there are none
