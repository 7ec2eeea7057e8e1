// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

func TestThreeTestsOfEachPackageAreNamedAndTheSlowestComesFirst(t *testing.T) {
	events := `{"Action":"run","Package":"a","Test":"TestOne"}
{"Action":"output","Package":"a","Test":"TestOne","Output":"text\n"}
{"Action":"pass","Package":"a","Test":"TestOne/part","Elapsed":9}
{"Action":"pass","Package":"a","Test":"TestOne","Elapsed":2.4}
{"Action":"fail","Package":"a","Test":"TestTwo","Elapsed":7}
{"Action":"pass","Package":"a","Test":"TestThree","Elapsed":1}
{"Action":"pass","Package":"a","Test":"TestFour","Elapsed":5}
{"Action":"fail","Package":"a","Elapsed":16}
{"Action":"pass","Package":"b","Test":"TestQuick","Elapsed":0.2}
{"Action":"pass","Package":"b","Elapsed":100}
{"Action":"pass","Package":"c","Elapsed":0.1}
`
	var out strings.Builder
	if err := list(&out, strings.NewReader(events)); err != nil {
		t.Fatal(err)
	}
	wants := "  100 s  b\n   16 s  a  TestTwo 7 s, TestFour 5 s, TestOne 2 s\n"
	if out.String() != wants {
		t.Errorf("got\n%s, wants\n%s", out.String(), wants)
	}
}

func TestWhatIsNoEventIsAnError(t *testing.T) {
	if err := list(&strings.Builder{}, strings.NewReader("FAIL\n")); err == nil {
		t.Error("no error")
	}
}
