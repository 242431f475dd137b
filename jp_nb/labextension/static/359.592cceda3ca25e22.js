"use strict";(self.rspackChunkjp_nb=self.rspackChunkjp_nb||[]).push([[359],{22(n,e,o){var t=o(23),a=o.n(t),r=o(24),A=(o.n(r))()(a());A.push([n.id,`/* Copy and "Insert as cell" on a code block of an answer. */

.jp-nb-code {
  position: relative;
}

/* JupyterLab removes the space below an element that is the last one of its parent. */
.jp-RenderedHTMLCommon > .jp-nb-code:not(:last-child) {
  margin-bottom: 1em;
}

/* It covers the space above the block rather than the code. */
.jp-nb-code-bar {
  position: absolute;
  right: 4px;
  top: -16px;
  z-index: 1;
  display: flex;
  gap: 4px;
  max-width: calc(100% - 8px);
  opacity: 0;
}

.jp-nb-code:first-child > .jp-nb-code-bar {
  top: 0;
}

.jp-nb-code:hover > .jp-nb-code-bar,
.jp-nb-code-bar:focus-within {
  opacity: 1;
}

/* A screen that cannot hover shows the buttons always. */
@media (hover: none) {
  .jp-nb-code-bar {
    opacity: 1;
  }
}

.jp-nb-button {
  padding: 0 8px;
  border: 1px solid var(--jp-border-color1);
  border-radius: 2px;
  background: var(--jp-layout-color1);
  color: var(--jp-ui-font-color1);
  font-family: var(--jp-ui-font-family);
  font-size: var(--jp-ui-font-size1);
  line-height: 22px;
  white-space: nowrap;
  cursor: pointer;
}

.jp-nb-button:hover {
  background: var(--jp-layout-color2);
}

.jp-nb-button:focus-visible {
  outline: 2px solid var(--jp-brand-color1);
  outline-offset: 1px;
}

/* "Ask about this error", below a traceback. */

.jp-nb-error-bar {
  display: flex;
  flex-wrap: wrap;
  gap: 4px 8px;
  align-items: center;
  padding: 4px 0;
  color: var(--jp-ui-font-color1);
  font-family: var(--jp-ui-font-family);
  font-size: var(--jp-ui-font-size1);
}
`,"",{version:3,sources:["webpack://./style/index.css"],names:[],mappings:"AAAA,4DAA4D;;AAE5D;EACE,kBAAkB;AACpB;;AAEA,sFAAsF;AACtF;EACE,kBAAkB;AACpB;;AAEA,8DAA8D;AAC9D;EACE,kBAAkB;EAClB,UAAU;EACV,UAAU;EACV,UAAU;EACV,aAAa;EACb,QAAQ;EACR,2BAA2B;EAC3B,UAAU;AACZ;;AAEA;EACE,MAAM;AACR;;AAEA;;EAEE,UAAU;AACZ;;AAEA,yDAAyD;AACzD;EACE;IACE,UAAU;EACZ;AACF;;AAEA;EACE,cAAc;EACd,yCAAyC;EACzC,kBAAkB;EAClB,mCAAmC;EACnC,+BAA+B;EAC/B,qCAAqC;EACrC,kCAAkC;EAClC,iBAAiB;EACjB,mBAAmB;EACnB,eAAe;AACjB;;AAEA;EACE,mCAAmC;AACrC;;AAEA;EACE,yCAAyC;EACzC,mBAAmB;AACrB;;AAEA,+CAA+C;;AAE/C;EACE,aAAa;EACb,eAAe;EACf,YAAY;EACZ,mBAAmB;EACnB,cAAc;EACd,+BAA+B;EAC/B,qCAAqC;EACrC,kCAAkC;AACpC",sourcesContent:['/* Copy and "Insert as cell" on a code block of an answer. */\n\n.jp-nb-code {\n  position: relative;\n}\n\n/* JupyterLab removes the space below an element that is the last one of its parent. */\n.jp-RenderedHTMLCommon > .jp-nb-code:not(:last-child) {\n  margin-bottom: 1em;\n}\n\n/* It covers the space above the block rather than the code. */\n.jp-nb-code-bar {\n  position: absolute;\n  right: 4px;\n  top: -16px;\n  z-index: 1;\n  display: flex;\n  gap: 4px;\n  max-width: calc(100% - 8px);\n  opacity: 0;\n}\n\n.jp-nb-code:first-child > .jp-nb-code-bar {\n  top: 0;\n}\n\n.jp-nb-code:hover > .jp-nb-code-bar,\n.jp-nb-code-bar:focus-within {\n  opacity: 1;\n}\n\n/* A screen that cannot hover shows the buttons always. */\n@media (hover: none) {\n  .jp-nb-code-bar {\n    opacity: 1;\n  }\n}\n\n.jp-nb-button {\n  padding: 0 8px;\n  border: 1px solid var(--jp-border-color1);\n  border-radius: 2px;\n  background: var(--jp-layout-color1);\n  color: var(--jp-ui-font-color1);\n  font-family: var(--jp-ui-font-family);\n  font-size: var(--jp-ui-font-size1);\n  line-height: 22px;\n  white-space: nowrap;\n  cursor: pointer;\n}\n\n.jp-nb-button:hover {\n  background: var(--jp-layout-color2);\n}\n\n.jp-nb-button:focus-visible {\n  outline: 2px solid var(--jp-brand-color1);\n  outline-offset: 1px;\n}\n\n/* "Ask about this error", below a traceback. */\n\n.jp-nb-error-bar {\n  display: flex;\n  flex-wrap: wrap;\n  gap: 4px 8px;\n  align-items: center;\n  padding: 4px 0;\n  color: var(--jp-ui-font-color1);\n  font-family: var(--jp-ui-font-family);\n  font-size: var(--jp-ui-font-size1);\n}\n'],sourceRoot:""}]),o.d(e,{},{A:A})},25(n,e,o){var t=o(23),a=o.n(t),r=o(24),A=(o.n(r))()(a());A.push([n.id,`/* The cells that an open review is about, and the buttons that show them. */

.jp-Notebook .jp-Cell.jp-nb-affected {
  outline: 2px solid var(--jp-warn-color1, #f57c00);
  outline-offset: -2px;
}

.jp-Notebook .jp-Cell.jp-nb-inserts-below {
  box-shadow: inset 0 -3px 0 var(--jp-success-color1, #388e3c);
}

.jp-Notebook.jp-nb-inserts-at-start {
  box-shadow: inset 0 3px 0 var(--jp-success-color1, #388e3c);
}

.jp-nb-show-cells {
  display: flex;
  flex-wrap: wrap;
  gap: 4px;
  align-items: center;
  padding: 4px 0;
  color: var(--jp-ui-font-color1);
  font-size: var(--jp-ui-font-size1);
}

.jp-nb-show-cells .jp-nb-show-cell {
  width: auto;
}

.jp-nb-back.jp-nb-show-cell {
  position: absolute;
  right: 24px;
  bottom: 24px;
  z-index: 10;
  width: auto;
  box-shadow: var(--jp-elevation-z4);
}
`,"",{version:3,sources:["webpack://./style/reviews.css"],names:[],mappings:"AAAA,4EAA4E;;AAE5E;EACE,iDAAiD;EACjD,oBAAoB;AACtB;;AAEA;EACE,4DAA4D;AAC9D;;AAEA;EACE,2DAA2D;AAC7D;;AAEA;EACE,aAAa;EACb,eAAe;EACf,QAAQ;EACR,mBAAmB;EACnB,cAAc;EACd,+BAA+B;EAC/B,kCAAkC;AACpC;;AAEA;EACE,WAAW;AACb;;AAEA;EACE,kBAAkB;EAClB,WAAW;EACX,YAAY;EACZ,WAAW;EACX,WAAW;EACX,kCAAkC;AACpC",sourcesContent:["/* The cells that an open review is about, and the buttons that show them. */\n\n.jp-Notebook .jp-Cell.jp-nb-affected {\n  outline: 2px solid var(--jp-warn-color1, #f57c00);\n  outline-offset: -2px;\n}\n\n.jp-Notebook .jp-Cell.jp-nb-inserts-below {\n  box-shadow: inset 0 -3px 0 var(--jp-success-color1, #388e3c);\n}\n\n.jp-Notebook.jp-nb-inserts-at-start {\n  box-shadow: inset 0 3px 0 var(--jp-success-color1, #388e3c);\n}\n\n.jp-nb-show-cells {\n  display: flex;\n  flex-wrap: wrap;\n  gap: 4px;\n  align-items: center;\n  padding: 4px 0;\n  color: var(--jp-ui-font-color1);\n  font-size: var(--jp-ui-font-size1);\n}\n\n.jp-nb-show-cells .jp-nb-show-cell {\n  width: auto;\n}\n\n.jp-nb-back.jp-nb-show-cell {\n  position: absolute;\n  right: 24px;\n  bottom: 24px;\n  z-index: 10;\n  width: auto;\n  box-shadow: var(--jp-elevation-z4);\n}\n"],sourceRoot:""}]),o.d(e,{},{A:A})},24(n){n.exports=function(n){var e=[];return e.toString=function(){return this.map(function(e){var o="",t=void 0!==e[5];return e[4]&&(o+="@supports (".concat(e[4],") {")),e[2]&&(o+="@media ".concat(e[2]," {")),t&&(o+="@layer".concat(e[5].length>0?" ".concat(e[5]):""," {")),o+=n(e),t&&(o+="}"),e[2]&&(o+="}"),e[4]&&(o+="}"),o}).join("")},e.i=function(n,o,t,a,r){"string"==typeof n&&(n=[[null,n,void 0]]);var A={};if(t)for(var s=0;s<this.length;s++){var p=this[s][0];null!=p&&(A[p]=!0)}for(var i=0;i<n.length;i++){var c=[].concat(n[i]);t&&A[c[0]]||(void 0!==r&&(void 0===c[5]||(c[1]="@layer".concat(c[5].length>0?" ".concat(c[5]):""," {").concat(c[1],"}")),c[5]=r),o&&(c[2]&&(c[1]="@media ".concat(c[2]," {").concat(c[1],"}")),c[2]=o),a&&(c[4]?(c[1]="@supports (".concat(c[4],") {").concat(c[1],"}"),c[4]=a):c[4]="".concat(a)),e.push(c))}},e}},23(n){n.exports=function(n){var e=n[1],o=n[3];if(!o)return e;if("function"==typeof btoa){var t=btoa(unescape(encodeURIComponent(JSON.stringify(o))));return[e].concat(["/*# ".concat("sourceMappingURL=data:application/json;charset=utf-8;base64,".concat(t)," */")]).join("\n")}return[e].join("\n")}},16(n){var e=[];function o(n){for(var o=-1,t=0;t<e.length;t++)if(e[t].identifier===n){o=t;break}return o}function t(n,t){for(var a={},r=[],A=0;A<n.length;A++){var s=n[A],p=t.base?s[0]+t.base:s[0],i=a[p]||0,c="".concat(p," ").concat(i);a[p]=i+1;var l=o(c),u={css:s[1],media:s[2],sourceMap:s[3],supports:s[4],layer:s[5]};if(-1!==l)e[l].references++,e[l].updater(u);else{var d=function(n,e){var o=e.domAPI(e);return o.update(n),function(e){e?(e.css!==n.css||e.media!==n.media||e.sourceMap!==n.sourceMap||e.supports!==n.supports||e.layer!==n.layer)&&o.update(n=e):o.remove()}}(u,t);t.byIndex=A,e.splice(A,0,{identifier:c,updater:d,references:1})}r.push(c)}return r}n.exports=function(n,a){var r=t(n=n||[],a=a||{});return function(n){n=n||[];for(var A=0;A<r.length;A++){var s=o(r[A]);e[s].references--}for(var p=t(n,a),i=0;i<r.length;i++){var c=o(r[i]);0===e[c].references&&(e[c].updater(),e.splice(c,1))}r=p}}},18(n){var e={};n.exports=function(n,o){var t=function(n){if(void 0===e[n]){var o=document.querySelector(n);if(window.HTMLIFrameElement&&o instanceof window.HTMLIFrameElement)try{o=o.contentDocument.head}catch(n){o=null}e[n]=o}return e[n]}(n);if(!t)throw Error("Couldn't find a style target. This probably means that the value for the 'insert' parameter is invalid.");t.appendChild(o)}},20(n){n.exports=function(n){var e=document.createElement("style");return n.setAttributes(e,n.attributes),n.insert(e,n.options),e}},19(n,e,o){n.exports=function(n){var e=o.nc;e&&n.setAttribute("nonce",e)}},17(n){n.exports=function(n){if("u"<typeof document)return{update:function(){},remove:function(){}};var e=n.insertStyleElement(n);return{update:function(o){var t,a,r;t="",o.supports&&(t+="@supports (".concat(o.supports,") {")),o.media&&(t+="@media ".concat(o.media," {")),(a=void 0!==o.layer)&&(t+="@layer".concat(o.layer.length>0?" ".concat(o.layer):""," {")),t+=o.css,a&&(t+="}"),o.media&&(t+="}"),o.supports&&(t+="}"),(r=o.sourceMap)&&"u">typeof btoa&&(t+="\n/*# sourceMappingURL=data:application/json;base64,".concat(btoa(unescape(encodeURIComponent(JSON.stringify(r))))," */")),n.styleTagTransform(t,e,n.options)},remove:function(){var n;null===(n=e).parentNode||n.parentNode.removeChild(n)}}}},21(n){n.exports=function(n,e){if(e.styleSheet)e.styleSheet.cssText=n;else{for(;e.firstChild;)e.removeChild(e.firstChild);e.appendChild(document.createTextNode(n))}}},15(n,e,o){var t=o(16),a=o.n(t),r=o(17),A=o.n(r),s=o(18),p=o.n(s),i=o(19),c=o.n(i),l=o(20),u=o.n(l),d=o(21),b=o.n(d),f=o(22),C={};C.styleTagTransform=b(),C.setAttributes=c(),C.insert=p().bind(null,"head"),C.domAPI=A(),C.insertStyleElement=u(),a()(f.A,C),f.A&&f.A.locals&&f.A.locals;var h=o(25),v={};v.styleTagTransform=b(),v.setAttributes=c(),v.insert=p().bind(null,"head"),v.domAPI=A(),v.insertStyleElement=u(),a()(h.A,v),h.A&&h.A.locals&&h.A.locals}}]);
//# sourceMappingURL=359.592cceda3ca25e22.js.map?v=592cceda3ca25e22