// A reader of transparency logs that is not ours: golang.org/x/mod/sumdb checks the
// signature of a set's checkpoint, its tiles, the proof of a record, and that the tree
// continues an earlier one.
//
//	judge URL KEY INDEX LEAF SIZE ROOT    URL: of the set; LEAF in hex, ROOT in base64
package main

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

func check(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func get(path string) []byte {
	answer, err := http.Get(os.Args[1] + "/" + path)
	check(err)
	body, err := io.ReadAll(answer.Body)
	check(err)
	if answer.StatusCode != 200 {
		check(fmt.Errorf("%s: %s", path, answer.Status))
	}
	return body
}

type tiles struct{}

func (tiles) Height() int                     { return 8 }
func (tiles) SaveTiles([]tlog.Tile, [][]byte) {}
func (tiles) ReadTiles(all []tlog.Tile) (data [][]byte, err error) {
	for _, tile := range all {
		path := strings.Replace(tile.Path(), "tile/8/", "tile/", 1)
		data = append(data, get(path))
	}
	return
}

func main() {
	verifier, err := note.NewVerifier(os.Args[2])
	check(err)
	opened, err := note.Open(get("checkpoint"), note.VerifierList(verifier))
	check(err)
	lines := strings.Split(opened.Text, "\n")
	size, err := strconv.ParseInt(lines[1], 10, 64)
	check(err)
	root, err := tlog.ParseHash(lines[2])
	check(err)
	reader := tlog.TileHashReader(tlog.Tree{N: size, Hash: root}, tiles{})

	index, err := strconv.ParseInt(os.Args[3], 10, 64)
	check(err)
	leaf, err := hex.DecodeString(os.Args[4])
	check(err)
	record, err := tlog.ProveRecord(size, index, reader)
	check(err)
	check(tlog.CheckRecord(record, size, root, index, tlog.RecordHash(leaf)))

	before, err := strconv.ParseInt(os.Args[5], 10, 64)
	check(err)
	former, err := tlog.ParseHash(os.Args[6])
	check(err)
	way, err := tlog.ProveTree(size, before, reader)
	check(err)
	check(tlog.CheckTree(way, size, root, before, former))
	for _, hash := range record {
		fmt.Println(hash)
	}
}
