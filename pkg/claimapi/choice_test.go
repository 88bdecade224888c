package claimapi_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/itembank"
)

// TestChosenItems: a request may name items if the campaign allows it. It gets all of them or none.
func TestChosenItems(t *testing.T) {
	t.Parallel()
	const hall = "/campaigns/hall/claims"
	b := newBench(t, "body", "SPRING-1")
	b.campaign(t, "hall", itembank.Settings{Choice: true, OnEnd: itembank.Return}, "1A", "1B", "1C", "1D", "1E")
	claim := func(body string, status int, slug string) answer {
		t.Helper()
		return b.do(t, post(hall, body)).wants(t, status, slug)
	}
	items := func(a answer) []string {
		t.Helper()
		var body claimapi.ClaimBody
		must(t, json.Unmarshal([]byte(a.Body), &body))
		if len(body.Items) == 1 || len(body.Items) > 1 && body.Items[0] != body.ItemBody {
			t.Errorf("the items of %s", a.Body)
		}
		if body.Items == nil {
			return []string{body.Item}
		}
		var all []string
		for _, item := range body.Items {
			all = append(all, item.Item)
		}
		return all
	}
	one := claim(`{"claimant":"ann","item":"1C"}`, http.StatusCreated, "")
	two := claim(`{"claimant":"bob","items":["1D","1B"]}`, http.StatusCreated, "")
	if !slices.Equal(items(one), []string{"1C"}) || !slices.Equal(items(two), []string{"1D", "1B"}) {
		t.Errorf("got %s and %s", one.Body, two.Body)
	}
	for _, body := range []string{`"item":"1C"`, `"item":"9Z"`, `"items":["1A","1B"]`, `"items":["1A","9Z"]`} {
		claim(`{"claimant":"cid",`+body+`}`, http.StatusConflict, "item-taken")
	}
	for _, body := range []string{`"items":["1D","1B"]`, `"items":["1A"]`, `"item":"1A"`, `"slot":1`} {
		if again := claim(`{"claimant":"bob",`+body+`}`, http.StatusOK, ""); !slices.Equal(items(again), []string{"1D", "1B"}) {
			t.Errorf("%s: got %s", body, again.Body)
		}
	}
	read := b.do(t, newRequest(http.MethodGet, hall+"/bob")).wants(t, http.StatusOK, "")
	if !slices.Equal(items(read), []string{"1D", "1B"}) {
		t.Errorf("got %s", read.Body)
	}
	for _, body := range []string{
		`"items":[]`, `"items":"1A"`, `"items":["1A","1A"]`, `"items":[1]`, `"items":[""]`, `"items":null`, `"items":["1A",null]`, `"item":["1A"]`, `"item":""`,
		`"item":"1A","items":["1E"]`, `"item":"1A","item":"1E"`,
	} {
		claim(`{"claimant":"cid",`+body+`}`, http.StatusBadRequest, "invalid-request")
	}
	b.do(t, post("/campaigns/spring/claims", `{"claimant":"cid","item":"SPRING-1"}`)).wants(t, http.StatusBadRequest, "invalid-request")
	claim(`{"claimant":"cid"}`, http.StatusCreated, "") // any item will do
}
